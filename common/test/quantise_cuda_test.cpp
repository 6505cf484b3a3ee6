#include <catch2/catch_test_macros.hpp>

#include "common/test/quotient_on_device.hpp"
#include "common/test/require_gpu.hpp"

using namespace opbook;
using gpu::Tried;

TEST_CASE("codes are those of a division, for every 16-bit y under every scale that it can have",
          "[gpu][sanitize]") {
  require_gpu();
  CHECK(gpu::wrong_quotients(Tried::real_scales_bfloat16) == 0);
  CHECK(gpu::wrong_quotients(Tried::real_scales_float16) == 0);
}

TEST_CASE("codes by an inverse in two parts are those of a division, for float32 y too", "[gpu]") {
  require_gpu();
  CHECK(gpu::wrong_quotients(Tried::two_parts) == 0);
}

TEST_CASE("scales are those of a division by 448, for every float32", "[gpu]") {
  require_gpu();
  CHECK(gpu::wrong_quotients(Tried::all_scales) == 0);
}

TEST_CASE("float32 quotients have the bits of a division", "[gpu]") {
  require_gpu();
  CHECK(gpu::wrong_quotients(Tried::float32_sample) == 0);  // 4 billion pairs
}
