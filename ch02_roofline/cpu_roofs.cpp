#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "ch02_roofline/cpu_bandwidth.hpp"
#include "ch02_roofline/peak.hpp"
#include "ch02_roofline/roofs.hpp"
#include "common/chapter.hpp"
#include "common/machine.hpp"
#include "common/timing.hpp"

namespace opbook::ch02 {
namespace {

/// How long something takes, by which the length of every sample is chosen: a time that was
/// disturbed once would make all of them too short.
template <class Take>
double least_of_three(Take take) {
  double least = take();
  for (int again = 0; again < 2; ++again) least = std::min(least, take());
  return least;
}

using cpu::BandwidthLoop, cpu::PeakLoop, cpu::SharedArrays;

/// How long one sample lasts at least: short enough to settle, long enough for the clock.
double sample_us(bool quick) {
  return quick ? 1000 : 3000;
}

TimingOptions roof_timing(bool quick) {
  if (quick) return {.warmup = 1, .min_samples = 5, .max_samples = 11, .max_seconds = 0.2};
  return {.warmup = 1, .min_samples = 11, .max_samples = 51, .max_seconds = 1.0};
}

const char* cores_name(int threads) {
  return threads == 1 ? "one core" : "all cores";
}

/// From what a first-level cache holds to what no cache does.
std::vector<std::int64_t> working_sets(int threads, std::int64_t largest, bool quick) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = threads * (16 << 10); size < largest * 3 / 4; size *= quick ? 4 : 2) {
    sizes.push_back(size);
  }
  sizes.push_back(largest);
  return sizes;
}

/// One working set: all loops that are asked for take turns.
void measure_loops(SharedArrays& arrays, int threads, std::int64_t bytes, bool largest, bool quick,
                   std::vector<Roof>& roofs) {
  std::vector<BandwidthLoop> loops;
  for (const BandwidthLoop& loop : cpu::bandwidth_loops()) {
    const std::string_view how = loop.how;
    // What passes the caches, and the library's choice between the two, matters in memory alone.
    if (largest || how == "loads" || how == "ordinary stores") loops.push_back(loop);
  }
  std::vector<std::int64_t> passes, moved;
  std::vector<std::function<double()>> contenders;
  for (std::size_t i = 0; i < loops.size(); ++i) {
    moved.push_back(arrays.lay_out(loops[i], bytes));
    const double once = least_of_three([&] { return arrays.pass(loops[i], 1); });
    passes.push_back(
        std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(sample_us(quick) / once))));
    contenders.push_back([&, i] {
      arrays.lay_out(loops[i], bytes);
      if (passes[i] > 1) arrays.pass(loops[i], 1);  // into the caches again
      return arrays.pass(loops[i], passes[i]) / static_cast<double>(passes[i]);
    });
  }
  const auto samples = sample_in_turn(contenders, roof_timing(quick));
  for (std::size_t i = 0; i < loops.size(); ++i) {
    Roof roof{std::string(loops[i].mix), "GB/s", cores_name(threads), loops[i].how};
    roof.working_set_bytes = moved[i] == 0 ? 0 : bytes;
    fill_rate(roof, static_cast<double>(moved[i]), samples[i]);
    roofs.push_back(std::move(roof));
  }
}

/// One sample of a peak: the clock on each core, then all cores at once.
struct PeakSample {
  double us = 0;
  double ghz = 0;  ///< mean of the cores
};
PeakSample sample_peak(const PeakLoop& loop, int threads, std::int64_t rounds) {
  using Clock = std::chrono::steady_clock;
  PeakSample sample;
  Clock::time_point begin, end;
#pragma omp parallel num_threads(threads)
  {
    const double ghz = cpu::clock_ghz(200'000);
#pragma omp atomic
    sample.ghz += ghz / threads;
#pragma omp barrier
#pragma omp master
    begin = Clock::now();
    loop.run(rounds);
#pragma omp barrier
#pragma omp master
    end = Clock::now();
  }
  sample.us = std::chrono::duration<double, std::micro>(end - begin).count();
  return sample;
}

Roof measure_peak(const PeakLoop& loop, int threads, bool quick) {
  constexpr std::int64_t some_rounds = 20'000;
  const double some_us = least_of_three([&] { return sample_peak(loop, threads, some_rounds).us; });
  const std::int64_t rounds = static_cast<std::int64_t>(static_cast<double>(some_rounds) *
                                                        std::max(1.0, sample_us(quick) / some_us));
  std::vector<double> shares;
  const std::function<double()> contender = [&] {
    const PeakSample sample = sample_peak(loop, threads, rounds);
    // Two multiply-adds a cycle and core is the most that any x86 begins.
    const double most = 2.0 * 2.0 * loop.lanes * threads * sample.ghz * 1e3;  // FLOPs a microsecond
    shares.push_back(loop.flops(rounds) * threads / sample.us / most);
    return sample.us;
  };
  const auto samples = sample_in_turn({&contender, 1}, roof_timing(quick));
  Roof roof{loop.unit, "TFLOP/s", cores_name(threads),
            fmt::format("{}, {}", loop.isa, loop.fused ? "multiply-add" : "product and sum")};
  fill_rate(roof, loop.flops(rounds) * threads, samples[0]);
  roof.of_theory = bounded_median(shares).median;
  return roof;
}

std::int64_t largest_working_set(const MachineInfo& machine) {
  const std::int64_t llc = std::max<std::int64_t>(machine.llc_bytes, 1 << 20);
  return cold_working_set_bytes(llc, machine.memory_bytes);
}

}  // namespace

std::vector<Roof> measure_cpu_roofs(const MachineInfo& machine, bool quick) {
  const std::int64_t largest = largest_working_set(machine);
  std::vector<int> places = {1};
  if (omp_get_max_threads() > 1) places.push_back(omp_get_max_threads());
  std::vector<Roof> roofs;
  for (const int threads : places) {
    SharedArrays arrays(largest, threads);
    for (const std::int64_t bytes : working_sets(threads, largest, quick)) {
      progress(fmt::format("roofs: {}, {} KiB", cores_name(threads), bytes >> 10));
      measure_loops(arrays, threads, bytes, bytes == largest, quick, roofs);
    }
  }
  for (const int threads : places) {
    progress(fmt::format("roofs: arithmetic on {}", cores_name(threads)));
    for (const PeakLoop& loop : cpu::peak_loops()) {
      roofs.push_back(measure_peak(loop, threads, quick));
    }
  }
  if (places.size() == 1) {  // then it is all of them
    for (Roof& roof : roofs) roof.where = "all cores";
  }
  progress("");
  return roofs;
}

std::vector<Roof> measure_cpu_roofs_again(const MachineInfo& machine, bool quick) {
  const std::int64_t largest = largest_working_set(machine);
  const int threads = omp_get_max_threads();
  progress("roofs: once more");
  SharedArrays arrays(largest, threads);
  std::vector<Roof> roofs;
  measure_loops(arrays, threads, largest, true, quick, roofs);
  for (const PeakLoop& loop : cpu::peak_loops()) {
    roofs.push_back(measure_peak(loop, threads, quick));
  }
  for (Roof& roof : roofs) {
    roof.where = "all cores";
    roof.how += ", after the sweep";
  }
  progress("");
  return roofs;
}

OnChip cpu_on_chip() {
  OnChip on_chip;
  std::int64_t first = 0, second = 0;
#if defined(_SC_LEVEL1_DCACHE_SIZE) && defined(_SC_LEVEL2_CACHE_SIZE)
  first = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  second = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
  on_chip.how =
      "A block stands for what a core's first-level data cache holds, an sm for a core "
      "with its second level";
  if (first < 1) {  // what every x86 of this century has at least
    first = 32 << 10;
    on_chip.how += " (which the system does not tell: 32 KiB assumed)";
  }
  on_chip.bytes_per_block = first;
  on_chip.bytes_per_sm = std::max(first, second);
  return on_chip;
}

}  // namespace opbook::ch02
