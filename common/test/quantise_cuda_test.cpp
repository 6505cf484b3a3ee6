#include <catch2/catch_test_macros.hpp>

#include "common/cuda/probe.hpp"
#include "common/test/quotient_on_device.hpp"

using namespace opbook;

TEST_CASE("quotients in three instructions have the bits of a division, for every 16-bit y",
          "[gpu][sanitize]") {
  const gpu::Probe probe = gpu::probe_device();
  if (!probe.device) SKIP("no CUDA device: " << probe.reason);
  std::int64_t tried = 0;
  for (const bool bfloat : {false, true}) {
    INFO((bfloat ? "bfloat16" : "float16"));
    CHECK(gpu::wrong_quotients(bfloat, 20000, tried) == 0);
    CHECK(tried == 20000 * 65536ll);
  }
}
