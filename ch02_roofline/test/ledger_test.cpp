#include "ch02_roofline/ledger.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>

#include "common/error.hpp"

using namespace opbook;
using namespace opbook::ch02;

namespace {

auto begins(const std::string& text) {
  return Catch::Matchers::MessageMatches(Catch::Matchers::StartsWith(text));
}

}  // namespace

TEST_CASE("the chain moves 2 n e bytes a kernel, k kernels unfused and one fused", "[ledger]") {
  for (const std::int64_t k : {1, 2, 7, 4096}) {
    for (const Dtype dtype : dtypes) {
      const std::int64_t n = 1000, e = size_of(dtype);
      const Case plans = multiply_add_chain_case({.n = n, .k = k, .dtype = dtype});
      REQUIRE(plans.op == "multiply_add_chain");
      REQUIRE(plans.unfused.kernels.size() == static_cast<std::size_t>(k));
      REQUIRE(plans.fused.kernels.size() == 1);
      REQUIRE(plans.unfused.moved_bytes() == 2 * k * n * e);
      REQUIRE(plans.fused.read_bytes() == n * e);
      REQUIRE(plans.fused.write_bytes() == n * e);
      REQUIRE(plans.unfused.flops() == 2 * k * n);
      REQUIRE(plans.fused.flops() == 2 * k * n);
      REQUIRE(plans.fused.ai() == static_cast<double>(k) / static_cast<double>(e));
      REQUIRE(plans.bytes_ratio() == static_cast<double>(k));
    }
  }
}

TEST_CASE("the first step reads x, the others what the one before has written", "[ledger]") {
  const Case plans = multiply_add_chain_case({.n = 8, .k = 3});
  for (int step = 0; step < 3; ++step) {
    const Kernel& kernel = plans.unfused.kernels[step];
    CHECK(kernel.name == step_name(step + 1));
    CHECK(kernel.reads.front().name == (step == 0 ? "x" : "y"));
    CHECK(kernel.writes.front().name == "y");
    CHECK(kernel.flops == 16);
  }
}

TEST_CASE("sizes that make no chain are refused by name", "[ledger]") {
  const auto make = [](std::int64_t n, std::int64_t k, Dtype dtype = Dtype::float32) {
    return multiply_add_chain_case({.n = n, .k = k, .dtype = dtype});
  };
  CHECK_THROWS_MATCHES(make(0, 1), ArgumentError, begins("n: got 0; allowed: "));
  CHECK_THROWS_MATCHES(make(-1, 1), ArgumentError, begins("n: got -1; allowed: "));
  CHECK_THROWS_MATCHES(make(1, 0), ArgumentError, begins("k: got 0; allowed: "));
  CHECK_THROWS_MATCHES(make(1, -4), ArgumentError, begins("k: got -4; allowed: "));
  CHECK_THROWS_MATCHES(make(1, most_steps + 1), ArgumentError, begins("k: got 65537; allowed: "));
  CHECK_NOTHROW(make(1, most_steps));
  CHECK_THROWS_MATCHES(make(1, 1, Dtype::float8_e4m3fn), ArgumentError,
                       begins("dtype: got float8_e4m3fn; allowed: float32, float16, bfloat16"));
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_MATCHES(make(largest, 1), ArgumentError, begins("sizes: "));
  CHECK_THROWS_MATCHES(make(largest / 8, 4096), ArgumentError, begins("sizes: "));
  CHECK_NOTHROW(make(largest / 8, 1));
}
