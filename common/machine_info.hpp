#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace opbook {

/// What a measurement was made on. A text is empty and a number zero where the machine does not say
/// or has none (SMs of a CPU).
struct MachineInfo {
  std::string name;               ///< the model: "NVIDIA H200", "AMD EPYC 7B13"
  std::string device;             ///< "cpu" or "cuda"
  std::int64_t cores = 0;         ///< processors that this process may use
  std::int64_t sms = 0;           ///< multiprocessors
  std::int64_t memory_bytes = 0;  ///< of the device; of a CPU, what a container leaves of it
  std::int64_t llc_bytes = 0;     ///< the last-level caches together; of a GPU, its L2
  std::string driver;
  std::string toolkit;
  std::string clocks;    ///< as they were when read
  std::string compiler;  ///< what compiled this program's C++
  std::string commit;    ///< of this repository; ends in "-dirty" where files differ from it
};

/// A name for files: lower case, everything else but digits one hyphen: "NVIDIA H200" is
/// "nvidia-h200". Trade marks, as in "Intel(R)", go; a name without a letter or digit is "unknown".
std::string machine_slug(std::string_view name);

/// This machine's CPU, from /proc and /sys below `root`.
MachineInfo describe_cpu(const std::filesystem::path& root = "/");

/// The current CUDA device, its driver and its clocks by nvidia-smi where that is there. Throws
/// DeviceUnavailable, with the reason, where there is none.
MachineInfo describe_device();

/// MachineInfo's `compiler` and `commit` of this program, the same for each device.
std::string compiler_version();
std::string source_commit();

}  // namespace opbook
