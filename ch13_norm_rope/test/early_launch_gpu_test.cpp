// Kernels for few blocks, which are launched before those ahead of them have ended: that they wait
// for what they depend on, and that what they take in a graph is timed.

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "ch13_norm_rope/add_rms_norm.hpp"
#include "ch13_norm_rope/chapter.hpp"
#include "ch13_norm_rope/test/operator_test.hpp"
#include "common/cuda/bench_on_device.hpp"
#include "common/cuda/probe.hpp"
#include "common/test/mirror.hpp"
#include "common/test/require_gpu.hpp"

using namespace opbook;
using namespace opbook::ch13;

TEST_CASE("an operator launched early waits for the one that it depends on", "[gpu][sanitize]") {
  require_gpu();
  using T = float;
  const std::int64_t n = 4096;
  Array x = filled("x", Dtype::float32, {1, n}), w = filled("w", Dtype::float32, {n});
  Array last("y", Dtype::float32, {1, n}), expected("y", Dtype::float32, {1, n});
  const Mirror device_w(w), a(x), b(x), sums(x);
  // Each normalises and adds what the one before wrote; a row read too early shows in the last.
  const auto run = [&](bool one_by_one, Array& result) {
    opbook::gpu::copy_to_device(a.raw(), x.raw(), x.bytes());
    for (int i = 0; i < 200; ++i) {
      const Mirror &from = i % 2 == 0 ? a : b, &to = i % 2 == 0 ? b : a;
      ch13::gpu::add_rms_norm<T>(nullptr, from.rows<T>(x), from.rows<T>(x), device_w.row<T>(w),
                                 sums.rows<T>(x), to.rows<T>(x));
      if (one_by_one) opbook::gpu::synchronise();
    }
    opbook::gpu::synchronise();
    a.fetch(result);
  };
  run(true, expected);
  run(false, last);
  CHECK(same_bits(last, expected));
}

TEST_CASE("an operator of few bytes is timed in a graph too, as a share of one read", "[gpu]") {
  require_gpu();
  const opbook::gpu::DeviceInfo device = *opbook::gpu::probe_device().device;
  MachineInfo machine;
  machine.llc_bytes = device.l2_bytes;
  machine.memory_bytes = device.memory_bytes;
  const TimingOptions few_samples{.warmup = 1, .min_samples = 6, .max_samples = 6};
  const auto timed = [&](std::int64_t rows) {
    const GivenFlags sized = {{"--m", std::to_string(rows)}, {"--n", "4096"}};
    return opbook::gpu::bench_on_device(ch13::chapter().make_problem("rms_norm", sized, {}),
                                        machine, few_samples);
  };
  const std::vector<ResultRow> one = timed(1);
  REQUIRE(one.size() == 3);
  CHECK(one[2].plan == "fused");
  CHECK(one[2].temperature == "hot");
  CHECK(one[2].roof == "one read");
  CHECK(one[2].median_us < one[1].median_us);  // no launch from the host is waited for
  CHECK(one[2].share_of_roof > 0);
  CHECK(one[2].share_of_roof < 1.2);  // nothing takes less than its one read
  CHECK(timed(256).size() == 2);
}
