#pragma once

// What the CPU's units multiply and add: one loop for each instruction set, in a file of its own
// that is compiled for it; which of them run is decided when the program does.

#include <cstdint>
#include <vector>

namespace opbook::ch02::cpu {

/// Independent chains of multiply-adds in flight: enough for two units whose multiply-add takes
/// four or five cycles, or whose product and sum take three each; with two operands they fill
/// fourteen of sixteen registers.
inline constexpr int peak_chains = 12;

struct PeakLoop {
  const char* isa;   ///< "scalar", "SSE", "AVX2", "AVX-512"
  const char* unit;  ///< of compute_units: "fp32" or "fp64"
  int lanes;
  bool fused;                        ///< one instruction, or a product and a sum
  void (*run)(std::int64_t rounds);  ///< peak_chains multiply-adds of `lanes` each, a round

  /// 2 for each multiply-add.
  double flops(std::int64_t rounds) const {
    return 2.0 * peak_chains * lanes * static_cast<double>(rounds);
  }
};

// fp32 and fp64 each.
extern const PeakLoop scalar_loops[2], sse_loops[2], avx2_loops[2], avx512_loops[2];

/// Those that this CPU has, the narrowest first.
std::vector<PeakLoop> peak_loops();

/// GHz: cycles of a chain of integer additions, each of which waits for the one before it and takes
/// one cycle on any x86, by the time that it takes.
double clock_ghz(std::int64_t additions);

}  // namespace opbook::ch02::cpu
