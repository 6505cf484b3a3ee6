#pragma once

// For tests: data that arrive late. What a kernel reads without having waited for it is there all
// the same, nearly always, while kernels and memory are as fast as they are.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/cuda/device.hpp"

namespace opbook::gpu {

/// Queues a kernel that copies `bytes` on the device, a tenth of a millisecond after it began. What
/// is launched early behind it (early.cuh) begins before that. Throws CudaError.
void late_copy(Stream stream, std::byte* to, const std::byte* from, std::int64_t bytes);

/// Page-locked memory of the host: what kernels read there takes microseconds to come, over the
/// bus. Throws CudaError, DeviceUnavailable without a device.
class HostMemory {
 public:
  explicit HostMemory(std::int64_t bytes);
  /// For the host and for the device.
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace opbook::gpu
