#pragma once

// Memory and streams of a CUDA device, as plain C++: no CUDA header is needed to use them. Without
// a CUDA compiler every function throws DeviceUnavailable.

#include <cstddef>
#include <cstdint>
#include <memory>

struct CUstream_st;

namespace opbook::gpu {

/// A cudaStream_t; nullptr is the default stream. Operators queue their work on it and return.
using Stream = CUstream_st*;

/// Throws DeviceUnavailable, with the reason, where no CUDA device runs our kernels.
void require_device();

/// Waits for all that was queued. Throws CudaError for what failed in it.
void synchronise(Stream stream = nullptr);

/// Memory on the current device, aligned to 256 bytes. Throws ArgumentError, with the free memory,
/// where there is not enough.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::int64_t bytes);
  std::byte* data() const { return data_.get(); }
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::int64_t bytes_ = 0;
};

/// Copies that have arrived when the call returns.
void copy_to_device(std::byte* device, const std::byte* host, std::int64_t bytes);
void copy_to_host(std::byte* host, const std::byte* device, std::int64_t bytes);

/// Queued copies and fills on the device.
void copy_on_device(Stream stream, std::byte* to, const std::byte* from, std::int64_t bytes);
void fill_on_device(Stream stream, std::byte* to, std::uint8_t value, std::int64_t bytes);

/// A recorded moment of a stream. Throws CudaError.
class Event {
 public:
  Event();
  void record(Stream stream);
  /// Waits for both; microseconds from `earlier` to this one.
  double microseconds_since(const Event& earlier) const;

 private:
  struct Destroy {
    void operator()(void* event) const;
  };
  std::unique_ptr<void, Destroy> event_;
};

}  // namespace opbook::gpu
