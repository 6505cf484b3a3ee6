// The loops that measure the CPU's roofs do what their names say.

#include "ch02_roofline/roofs.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>

#include "ch02_roofline/cpu_bandwidth.hpp"
#include "ch02_roofline/peak.hpp"
#include "common/machine.hpp"

using namespace opbook;
using namespace opbook::ch02;
using cpu::BandwidthLoop;

namespace {

/// What a loop leaves in y, of x[i] = i and z[i] = -i.
float expected(std::string_view mix, std::int64_t i, std::int64_t pack) {
  const float v = static_cast<float>(i);
  if (mix == "write") return 1;
  if (mix == "copy") return v;
  if (mix == "scale") return 3 * v;
  if (mix == "triad") return -v + 3 * v;
  // mix_2_1: pack j of y is the sum of packs 2 j and 2 j + 1 of x.
  const std::int64_t at = i / pack * 2 * pack + i % pack;
  return static_cast<float>(at) + static_cast<float>(at + pack);
}

}  // namespace

TEST_CASE("every loop writes what its mix says, and nothing else", "[roofs]") {
  for (const int threads : {1, 3}) {
    cpu::SharedArrays arrays(1 << 20, threads);
    for (const BandwidthLoop& loop : cpu::bandwidth_loops()) {
      INFO(loop.mix << ", " << loop.how << ", threads " << threads);
      const std::int64_t moved = arrays.lay_out(loop, 200'000);
      CHECK(moved <= 200'000);
      CHECK(moved > 180'000);
      for (const cpu::Share& share : arrays.shares()) {
        CHECK(share.count % 64 == 0);
        const std::int64_t reads = loop.mix == "mix_2_1" ? 2 * share.count : share.count;
        float* const x = const_cast<float*>(share.x);
        for (std::int64_t i = 0; i < reads; ++i) x[i] = static_cast<float>(i);
        if (loop.mix == "triad") {
          float* const z = const_cast<float*>(share.z);
          for (std::int64_t i = 0; i < share.count; ++i) z[i] = -static_cast<float>(i);
        }
        if (loop.mix != "read") share.y[share.count] = -7;
      }
      CHECK(arrays.pass(loop, 2) > 0);
      if (loop.mix == "read") continue;
      for (const cpu::Share& share : arrays.shares()) {
        bool right = false;
        for (const std::int64_t pack : {4, 8, 16}) {  // whichever this is compiled for
          bool all = true;
          for (std::int64_t i = 0; i < share.count && all; ++i) {
            all = share.y[i] == expected(loop.mix, i, pack);
          }
          right |= all;
        }
        CHECK(right);
        CHECK(share.y[share.count] == -7);
      }
    }
  }
}

TEST_CASE("every mix of a machine file is measured, in every way that it has", "[roofs]") {
  for (const std::string_view mix : bandwidth_mixes) {
    if (mix == "peak") continue;
    INFO(mix);
    std::size_t ways = 0;
    for (const BandwidthLoop& loop : cpu::bandwidth_loops()) ways += loop.mix == mix;
    CHECK(ways == (mix == "copy" ? 4u : mix == "read" || mix == "write" ? 2u : 3u));
  }
}

TEST_CASE("memory and arithmetic are measured once more, by every loop on all cores", "[roofs]") {
  MachineInfo small;
  small.llc_bytes = 1 << 20;
  small.memory_bytes = 1 << 30;
  const std::vector<Roof> again = measure_cpu_roofs_again(small, true);
  CHECK(again.size() == cpu::bandwidth_loops().size() + cpu::peak_loops().size());
  for (const Roof& roof : again) {
    INFO(roof.name << ", " << roof.how);
    CHECK(roof.how.ends_with(", after the sweep"));
    CHECK(roof.where == "all cores");
    CHECK(roof.working_set_bytes == (roof.unit == "GB/s" ? 4 << 20 : 0));
    CHECK(roof.median > 0);
  }
}

TEST_CASE("wider instruction sets come after narrower ones, and all of them run", "[roofs]") {
  const std::vector<cpu::PeakLoop> loops = cpu::peak_loops();
  REQUIRE(loops.size() >= 4);
  CHECK(std::string(loops[0].isa) == "scalar");
  CHECK(std::string(loops[2].isa) == "SSE");
  for (std::size_t i = 0; i < loops.size(); ++i) {
    INFO(loops[i].isa << ' ' << loops[i].unit);
    CHECK(std::string(loops[i].unit) == (i % 2 == 0 ? "fp32" : "fp64"));
    if (i >= 2) CHECK(loops[i].lanes > loops[i - 2].lanes);
    loops[i].run(1000);
    CHECK(loops[i].flops(1000) == 2.0 * 12 * loops[i].lanes * 1000);
  }
}

TEST_CASE("the clock by dependent additions is that of a processor", "[roofs]") {
  double best = 0;  // somebody else may have the core meanwhile
  for (int i = 0; i < 20; ++i) best = std::max(best, cpu::clock_ghz(100'000));
  CHECK(best > 0.5);
  CHECK(best < 8);
}

TEST_CASE("a core's caches stand for what a block and an sm have on chip", "[roofs]") {
  const OnChip on_chip = cpu_on_chip();
  CHECK(on_chip.bytes_per_block >= 16 << 10);
  CHECK(on_chip.bytes_per_sm >= on_chip.bytes_per_block);
  CHECK_FALSE(on_chip.how.empty());
}
