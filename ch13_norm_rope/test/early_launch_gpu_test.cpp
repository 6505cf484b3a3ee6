// Kernels for few blocks, which are launched before those ahead of them have ended: that they wait
// for what they depend on, and that what they take in a graph is timed.

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "ch13_norm_rope/chapter.hpp"
#include "ch13_norm_rope/operators.hpp"
#include "common/cuda/bench_on_device.hpp"
#include "common/cuda/probe.hpp"
#include "common/test/late_inputs.hpp"
#include "common/test/require_gpu.hpp"

using namespace opbook;
using namespace opbook::ch13;

TEST_CASE("operators launched early wait for what they read", "[gpu][sanitize]") {
  require_gpu();
  for (const Operator& entry : operators()) {
    for (const Dtype dtype : input_dtypes) {
      Arguments a = entry.defaults;
      a.dtype = dtype;
      a.m = a.tokens = 1;
      a.n = 4096;
      a.rope_dim = 128;
      require_waits_for_inputs(entry.make_problem(a));
    }
  }
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
