#pragma once

// What there is to run CUDA code on. The header is plain C++: it is the same with and without a
// CUDA compiler.

#include <cstdint>
#include <optional>
#include <string>

namespace opbook::gpu {

/// A CUDA device that has just run a kernel of ours.
struct DeviceInfo {
  std::string name;
  int major = 0;  ///< compute capability, as in sm_<major><minor>
  int minor = 0;
  int sm_count = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;
  std::string toolkit;     ///< what compiled us: "12.6"
  std::string pci_bus_id;  ///< by which nvidia-smi knows it
};

/// The current CUDA device, or the reason why there is none.
struct Probe {
  std::optional<DeviceInfo> device;
  std::string reason;  ///< one line; empty where there is a device
};

/// Asks for the current device and runs a small kernel on it: a device that is listed but cannot
/// run what was compiled here counts as none. Never throws for want of a device.
Probe probe_device();

}  // namespace opbook::gpu
