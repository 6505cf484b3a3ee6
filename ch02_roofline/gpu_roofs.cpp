#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "ch02_roofline/gpu_bandwidth.hpp"
#include "ch02_roofline/gpu_peak.hpp"
#include "ch02_roofline/launches.hpp"
#include "ch02_roofline/matmul.hpp"
#include "ch02_roofline/roofs.hpp"
#include "common/chapter.hpp"
#include "common/cuda/device.hpp"
#include "common/error.hpp"
#include "common/timing.hpp"

namespace opbook::ch02 {
namespace {

using gpu::Arithmetic, gpu::Mix, gpu::MixArrays;
using opbook::gpu::DeviceMemory, opbook::gpu::Event;

TimingOptions gpu_timing(bool quick) {
  if (quick) return {.warmup = 2, .min_samples = 5, .max_samples = 11, .max_seconds = 0.05};
  return {.warmup = 2, .min_samples = 11, .max_samples = 51, .max_seconds = 0.3};
}

const char* sms_name(bool one) {
  return one ? "one SM" : "all SMs";
}

/// Samples on the device's clock. Something is queued ahead, so that the device is still busy when
/// the work arrives and no launch is timed.
class DeviceTimer {
 public:
  std::function<double()> sampling(std::function<void()> work) {
    return [this, work = std::move(work)] {
      opbook::gpu::fill_on_device(nullptr, ahead_.data(), 0, ahead_.bytes());
      before_.record(nullptr);
      work();
      after_.record(nullptr);
      return after_.microseconds_since(before_);
    };
  }

 private:
  DeviceMemory ahead_{64 << 20};
  Event before_, after_;
};

// --- Bandwidth -----------------------------------------------------------------------------------

/// One way to move a mix's bytes, and how often in one sample.
struct Way {
  std::string name;
  std::string how;
  std::int64_t bytes = 0;  ///< of a pass
  std::int64_t passes = 1;
  std::function<void()> work;
};

/// Three arrays, of which a mix takes what it needs.
class Arena {
 public:
  explicit Arena(std::int64_t bytes) : memory_(bytes + 4 * skew) {
    gpu::fill_floats(nullptr, memory_.data(), memory_.bytes() / 16);
    opbook::gpu::synchronise();
  }
  MixArrays lay_out(Mix mix, std::int64_t bytes) const {
    const gpu::Streams streams = gpu::streams_of(mix);
    MixArrays arrays;
    arrays.vectors = std::max<std::int64_t>(1, bytes / 16 / streams.count() / 32) * 32;
    std::byte* at = memory_.data();
    arrays.x = at;
    at += streams.x * arrays.vectors * 16 + skew;
    arrays.z = at;
    at += streams.z * arrays.vectors * 16 + skew;
    arrays.y = at;
    return arrays;
  }

 private:
  static constexpr std::int64_t skew = 4096;
  DeviceMemory memory_;
};

void add_way(std::vector<Way>& ways, Mix mix, const MixArrays& arrays, const char* how,
             std::int64_t passes, std::function<void()> work) {
  const std::int64_t bytes = gpu::streams_of(mix).count() * arrays.vectors * 16;
  ways.push_back({std::string(gpu::name_of(mix)), how, bytes, passes, std::move(work)});
}

/// All that is tried at one working set: looping blocks, which also find what is in a cache; in
/// memory, one vector a thread, and the driver's own copy and fill.
std::vector<Way> ways_at(const Arena& arena, std::int64_t bytes, bool one_sm, int sm_count,
                         bool in_memory) {
  // Enough passes for a sample of hundreds of microseconds: a launch is lost among them.
  const std::int64_t sample_bytes = one_sm ? 50'000'000 : 4'000'000'000;
  const std::int64_t passes = std::max<std::int64_t>(1, sample_bytes / bytes);
  const int blocks = one_sm ? 1 : sm_count;
  std::vector<Way> ways;
  for (const Mix mix : gpu::mixes) {
    const MixArrays arrays = arena.lay_out(mix, bytes);
    add_way(ways, mix, arrays, one_sm ? "a block that stays" : "blocks that stay", passes,
            [=] { gpu::move_again(nullptr, mix, arrays, blocks, passes); });
    if (one_sm || !in_memory) continue;
    add_way(ways, mix, arrays, "16 bytes a thread", 1,
            [=] { gpu::move_once(nullptr, mix, arrays); });
    if (mix == Mix::copy) {
      add_way(ways, mix, arrays, "cudaMemcpyAsync", 1, [=] {
        opbook::gpu::copy_on_device(nullptr, arrays.y, arrays.x, arrays.vectors * 16);
      });
    } else if (mix == Mix::write) {
      add_way(ways, mix, arrays, "cudaMemsetAsync", 1,
              [=] { opbook::gpu::fill_on_device(nullptr, arrays.y, 1, arrays.vectors * 16); });
    }
  }
  return ways;
}

void measure_working_set(DeviceTimer& timer, const std::vector<Way>& ways, std::int64_t bytes,
                         bool one_sm, bool quick, std::vector<Roof>& roofs) {
  std::vector<std::function<double()>> contenders;
  for (const Way& way : ways) {
    const double passes = static_cast<double>(way.passes);
    contenders.push_back([sample = timer.sampling(way.work), passes] { return sample() / passes; });
  }
  const auto samples = sample_in_turn(contenders, gpu_timing(quick));
  for (std::size_t i = 0; i < ways.size(); ++i) {
    Roof roof{ways[i].name, "GB/s", sms_name(one_sm), ways[i].how};
    roof.working_set_bytes = bytes;
    fill_rate(roof, static_cast<double>(ways[i].bytes), samples[i]);
    roofs.push_back(std::move(roof));
  }
}

/// From what a multiprocessor's L1 holds to far beyond the L2.
void measure_all_bandwidths(DeviceTimer& timer, const MachineInfo& machine, int sm_count,
                            bool quick, std::vector<Roof>& roofs) {
  const std::int64_t all_largest = std::min<std::int64_t>(8LL << 30, machine.memory_bytes / 8);
  const Arena arena(all_largest);
  for (const bool one_sm : {true, false}) {
    const std::int64_t smallest = (one_sm ? 1 : sm_count) * (32LL << 10);
    const std::int64_t largest =
        one_sm ? std::min<std::int64_t>(all_largest, 4 * machine.llc_bytes) : all_largest;
    for (std::int64_t bytes = smallest;; bytes *= quick ? 4 : 2) {
      const bool last = bytes >= largest * 3 / 4;
      if (last) bytes = largest;
      progress(fmt::format("roofs: {}, {} KiB", sms_name(one_sm), bytes >> 10));
      measure_working_set(timer, ways_at(arena, bytes, one_sm, sm_count, last), bytes, one_sm,
                          quick, roofs);
      if (last) break;
    }
  }
}

// --- Arithmetic ----------------------------------------------------------------------------------

Roof measure_arithmetic(DeviceTimer& timer, Arithmetic unit, const gpu::Units& units, bool one_sm,
                        bool quick) {
  const int blocks = one_sm ? 1 : units.sm_count;
  const DeviceMemory sink(8);
  std::int64_t rounds = 16;
  const auto sample =
      timer.sampling([&] { gpu::multiply_adds(nullptr, unit, blocks, rounds, sink.data()); });
  sample();
  const double some_us = sample();
  rounds = std::max<std::int64_t>(rounds,
                                  static_cast<std::int64_t>(16 * (quick ? 1000 : 4000) / some_us));
  const auto samples = sample_in_turn({&sample, 1}, gpu_timing(quick));
  Roof roof{unit == Arithmetic::fp32   ? "fp32"
            : unit == Arithmetic::fp64 ? "fp64"
                                       : "bf16",
            "TFLOP/s", sms_name(one_sm), unit == Arithmetic::bf16_mma ? "mma.sync" : "fma"};
  fill_rate(roof, gpu::flops_a_round(unit) * static_cast<double>(rounds * blocks), samples[0]);
  const std::optional<int> lanes = unit == Arithmetic::fp32   ? units.fp32_lanes()
                                   : unit == Arithmetic::fp64 ? units.fp64_lanes()
                                                              : std::nullopt;
  if (lanes) {
    const double most = 2e-3 * *lanes * (one_sm ? 1 : units.sm_count) * units.clock_ghz;
    roof.of_theory = roof.median / most;
  }
  return roof;
}

Roof measure_matmul(DeviceTimer& timer, std::string_view unit, bool quick) {
  const std::int64_t size = quick ? 4096 : 8192;
  Roof roof{std::string(unit), "TFLOP/s", "all SMs",
            fmt::format("cuBLASLt, {0} x {0} x {0}", size)};
  try {
    gpu::Matmul matmul(unit, size);
    const auto sample = timer.sampling([&] { matmul.run(nullptr); });
    const auto samples = sample_in_turn({&sample, 1}, gpu_timing(quick));
    fill_rate(roof, matmul.flops(), samples[0]);
  } catch (const DeviceUnavailable& unavailable) {
    roof.note = unavailable.what();
  }
  return roof;
}

/// The hand-written mma, and what share of the library's rate it is.
Roof measure_mma(DeviceTimer& timer, const gpu::Units& units, std::span<const Roof> roofs,
                 bool quick) {
  if (units.major < 8) {
    Roof roof{"bf16", "TFLOP/s", "all SMs", "mma.sync"};
    roof.note =
        fmt::format("needs compute capability 8.0; this is {}.{}", units.major, units.minor);
    return roof;
  }
  Roof roof = measure_arithmetic(timer, Arithmetic::bf16_mma, units, false, quick);
  const auto library = std::find_if(roofs.begin(), roofs.end(), [](const Roof& other) {
    return other.name == "bf16" && other.median > 0;
  });
  if (library != roofs.end()) {
    roof.note = fmt::format("out of registers; cuBLASLt reaches {:.0f} % of it",
                            100 * library->median / roof.median);
  }
  return roof;
}

Roof measure_launch(bool as_graph, bool quick) {
  constexpr int launches = 1000;
  gpu::Launches launched(launches, as_graph);
  const std::function<double()> sample = [&] { return launched.sample_us(); };
  const auto samples = sample_in_turn({&sample, 1}, gpu_timing(quick));
  Roof roof{"launch", "us", as_graph ? "graph" : "stream",
            fmt::format("mean of {} empty kernels on end", launches)};
  fill_rate(roof, 1, samples[0]);
  return roof;
}

}  // namespace

std::vector<Roof> measure_gpu_roofs(const MachineInfo& machine, bool quick) {
  opbook::gpu::require_device();
  const gpu::Units units = gpu::describe_units();
  DeviceTimer timer;
  std::vector<Roof> roofs;
  measure_all_bandwidths(timer, machine, units.sm_count, quick, roofs);
  progress("roofs: arithmetic");
  for (const Arithmetic unit : {Arithmetic::fp32, Arithmetic::fp64}) {
    for (const bool one_sm : {true, false}) {
      roofs.push_back(measure_arithmetic(timer, unit, units, one_sm, quick));
    }
  }
  for (const std::string_view unit : {"tf32", "fp16", "bf16", "fp8"}) {
    progress(fmt::format("roofs: {}", unit));
    roofs.push_back(measure_matmul(timer, unit, quick));
  }
  roofs.push_back(measure_mma(timer, units, roofs, quick));
  for (const bool as_graph : {false, true}) roofs.push_back(measure_launch(as_graph, quick));
  progress("");
  return roofs;
}

OnChip gpu_on_chip() {
  const gpu::Units units = gpu::describe_units();
  return {units.shared_bytes_per_block, units.shared_bytes_per_sm,
          "On chip: shared memory of a block, with the opt-in for more, and of a multiprocessor"};
}

}  // namespace opbook::ch02
