#include "ch02_roofline/peak.hpp"

#include <chrono>

namespace opbook::ch02::cpu {

std::vector<PeakLoop> peak_loops() {
  std::vector<PeakLoop> loops;
  const auto add = [&](const PeakLoop(&both)[2], bool available) {
    if (!available) return;
    for (const PeakLoop& loop : both) loops.push_back(loop);
  };
  add(scalar_loops, true);
  add(sse_loops, true);
  add(avx2_loops, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  add(avx512_loops, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"));
  return loops;
}

double clock_ghz(std::int64_t additions) {
  using Clock = std::chrono::steady_clock;
  constexpr int unrolled = 8;
  std::uint64_t sum = 0;
  const std::uint64_t one = 1;
  const Clock::time_point begin = Clock::now();
  for (std::int64_t i = 0; i < additions; i += unrolled) {
    // Between registers: some processors do away with additions of a constant.
    asm volatile(
        "add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\t"
        "add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0"
        : "+r"(sum)
        : "r"(one)
        : "cc");
  }
  const std::chrono::duration<double, std::nano> time = Clock::now() - begin;
  return static_cast<double>(sum) / time.count();
}

}  // namespace opbook::ch02::cpu
