#pragma once

// What the GPU's units multiply and add, out of registers; and what it costs to launch a kernel.

#include <cstdint>
#include <optional>
#include <string>

#include "common/cuda/device.hpp"

namespace opbook::ch02::gpu {

using opbook::gpu::Stream;

/// fp32 and fp64: fma instructions. bf16: the warp's mma.sync of 16 x 8 x 16, accumulated in fp32.
enum class Arithmetic { fp32, fp64, bf16_mma };

/// Queues `blocks` blocks of 1024 threads that do nothing but arithmetic. `sink`: 8 bytes on the
/// device, never written.
void multiply_adds(Stream stream, Arithmetic unit, int blocks, std::int64_t rounds,
                   std::byte* sink);

/// FLOPs of a block and round.
double flops_a_round(Arithmetic unit);

/// What the arithmetic needs to be known of the current device.
struct Units {
  int major = 0, minor = 0;  ///< compute capability
  int sm_count = 0;
  double clock_ghz = 0;                     ///< the highest that the SMs may have
  std::int64_t shared_bytes_per_block = 0;  ///< with the opt-in for more
  std::int64_t shared_bytes_per_sm = 0;
  /// Lanes of an SM that begin a multiply-add each cycle, by the CUDA C++ programming guide's table
  /// of arithmetic throughput; empty for a capability that it does not list.
  std::optional<int> fp32_lanes() const;
  std::optional<int> fp64_lanes() const;
};
Units describe_units();

inline std::optional<int> Units::fp32_lanes() const {
  switch (10 * major + minor) {
    case 75:
    case 80:
      return 64;
    case 86:
    case 89:
    case 90:
    case 100:
    case 120:
      return 128;
    default:
      return std::nullopt;
  }
}

inline std::optional<int> Units::fp64_lanes() const {
  switch (10 * major + minor) {
    case 75:
    case 86:
    case 89:
    case 120:
      return 2;
    case 80:
      return 32;
    case 90:
    case 100:
      return 64;
    default:
      return std::nullopt;
  }
}

/// Queues a kernel that does nothing: what is left is the launch.
void queue_empty_kernel(Stream stream);

}  // namespace opbook::ch02::gpu
