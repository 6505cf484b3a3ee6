// Rounding and spacing in double, and the bounds from which tolerances are derived.

#include <bit>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "common/test/sweep.hpp"
#include "common/verify.hpp"

using namespace opbook;
using namespace opbook::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

/// Interleaved partial sums, then a binary tree over them; `lanes` is a power of two.
float sum_in_lanes(const std::vector<float>& terms, std::int64_t lanes) {
  std::vector<float> partial(static_cast<std::size_t>(lanes));
  for (std::size_t i = 0; i < terms.size(); ++i) partial[i % partial.size()] += terms[i];
  for (std::size_t width = partial.size() / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) partial[i] += partial[i + width];
  }
  return partial[0];
}

}  // namespace

TEST_CASE("rounding in double to float32 is the hardware's", "[rounding]") {
  const auto holds = [](std::uint32_t bits) {
    // A double whose upper half is the pattern: every exponent, also far beyond float32's.
    const auto value = std::bit_cast<double>((std::uint64_t{bits} << 32) | (bits * 2654435761u));
    const double rounded = round_to(Dtype::float32, value);
    const double hardware = static_cast<float>(value);
    if (std::isnan(value)) return std::isnan(rounded);
    return rounded == hardware && std::signbit(rounded) == std::signbit(hardware);
  };
  CHECK(first_failure(float32_patterns, holds, sweep_stride) == "none");
  // Uniform patterns rarely meet float32's narrow range of subnormals and its upper end.
  CHECK(round_to(Dtype::float32, 0x1p-150) == 0);
  CHECK(round_to(Dtype::float32, 0x1.000001p-150) == 0x1p-149);
  CHECK(round_to(Dtype::float32, 0x1.8p-149) == 0x1p-148);
  CHECK(round_to(Dtype::float32, 0x1.fffffefp127) == 0x1.fffffep127);
  CHECK(round_to(Dtype::float32, 0x1.ffffffp127) == infinity);
}

TEST_CASE("a double is rounded once, not by way of float32", "[rounding]") {
  const double above_tie = 1 + 0x1p-11 + 0x1p-40;  // float32 loses the last bit, leaving a tie
  CHECK(round_to(Dtype::float16, above_tie) == 1 + 0x1p-10);
  CHECK(round_to(Dtype::float16, static_cast<float>(above_tie)) == 1);
}

TEST_CASE("NaN stays NaN and overflow becomes Inf, in e4m3 448", "[rounding]") {
  for (const Dtype dtype : float_dtypes) {
    const double limit = dtype == Dtype::float8_e4m3fn ? 448.0 : infinity;
    CHECK(std::isnan(round_to(dtype, nan_value)));
    CHECK(round_to(dtype, infinity) == limit);
    CHECK(round_to(dtype, -infinity) == -limit);
    CHECK(round_to(dtype, 1e300) == limit);
    CHECK(round_to(dtype, -1e300) == -limit);
    CHECK(round_to(dtype, max_finite(dtype)) == max_finite(dtype));
    CHECK(std::signbit(round_to(dtype, -0.0)));
    CHECK(std::signbit(round_to(dtype, -1e-300)));
  }
  CHECK(round_to(Dtype::float16, 65519.999) == 65504);
  CHECK(round_to(Dtype::float16, 65520) == infinity);
}

TEMPLATE_TEST_CASE("an ulp is the distance to the next number", "[rounding]", float16, bfloat16,
                   float8_e4m3fn) {
  const Dtype dtype = dtype_of<TestType>;
  const auto value = [](std::uint32_t bits) -> double {
    return to_float(TestType{static_cast<decltype(TestType::bits)>(bits)});
  };
  const std::uint32_t largest = from_float<TestType>(static_cast<float>(max_finite(dtype))).bits;
  const auto holds = [&](std::uint32_t bits) {
    const double step = value(bits + 1) - value(bits);
    return ulp(dtype, value(bits)) == step && ulp(dtype, -value(bits)) == step &&
           ulp(dtype, value(bits) + 0.99 * step) == step;
  };
  CHECK(first_failure(largest, holds) == "none");
  const double last_step = value(largest) - value(largest - 1);
  CHECK(ulp(dtype, value(largest)) == last_step);
  CHECK(ulp(dtype, 1e300) == last_step);
  CHECK(ulp(dtype, infinity) == last_step);
  CHECK(ulp(dtype, 0) == value(1));
  CHECK(std::isnan(ulp(dtype, nan_value)));
}

TEST_CASE("an ulp of float32 is the distance to the next float", "[rounding]") {
  for (const float value : {0.0f, 0x1p-149f, 0x1p-126f, 0.3f, 1.0f, 1e10f, 0x1.fffffcp127f}) {
    CHECK(ulp(Dtype::float32, value) ==
          static_cast<double>(std::nextafter(value, HUGE_VALF)) - static_cast<double>(value));
  }
}

TEST_CASE("integers have no rounding, no ulp and no tolerance", "[rounding]") {
  CHECK_THROWS_WITH(round_to(Dtype::int32, 1.5),
                    "dtype: got int32; allowed: float32, float16, bfloat16, float8_e4m3fn");
  CHECK_THROWS_AS(ulp(Dtype::int64, 1), ArgumentError);
  CHECK_THROWS_AS(rounding_tolerance(Dtype::int64, 0), ArgumentError);
}

TEST_CASE("the bound on a float32 sum counts the roundings on the longest way", "[rounding]") {
  const auto gamma = [](double k) { return k * 0x1p-24 / (1 - k * 0x1p-24); };
  CHECK(float32_sum_error(1000, 1) == gamma(1000));
  CHECK(float32_sum_error(4096, 8) == gamma(512 + 3));
  CHECK(float32_sum_error(4097, 8) == gamma(513 + 3));
  CHECK(float32_sum_error(7, 32) == gamma(1 + 5));
  CHECK(float32_sum_error(6, 6) == gamma(1 + 3));  // a tree over 6 is as deep as one over 8
  CHECK(float32_sum_error(0, 1) == 0);
  CHECK(float32_sum_error(1 << 24, 1) == infinity);
  CHECK_THROWS_AS(float32_sum_error(-1, 8), ArgumentError);
  CHECK_THROWS_AS(float32_sum_error(8, 0), ArgumentError);
}

TEST_CASE("a float32 sum of squares keeps within its bound; one that drops a term does not",
          "[rounding]") {
  const std::int64_t lanes = GENERATE(1, 8);
  const std::int64_t n = GENERATE(1, 7, 1000);
  std::vector<float> terms(static_cast<std::size_t>(n));
  double exact = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const float v = 1.0f + static_cast<float>(i * 79 % 101) * 0x1.3p-7f;
    terms[i] = v * v;
    exact += static_cast<double>(v) * v;
  }
  const auto error = [&] { return std::abs(sum_in_lanes(terms, lanes) - exact) / exact; };
  CHECK(error() <= float32_sum_error(n, lanes));
  terms.pop_back();
  CHECK(error() > float32_sum_error(n, lanes));
}

TEST_CASE("a relative error becomes ulps of the output dtype", "[rounding]") {
  CHECK(rounding_tolerance(Dtype::bfloat16, 0) == 0.5);
  CHECK(rounding_tolerance(Dtype::bfloat16, 0x1p-16) == 0.5 + 0x1p-8);
  CHECK(rounding_tolerance(Dtype::float16, 0x1p-16) == 0.5 + 0x1p-5);
  CHECK(rounding_tolerance(Dtype::float32, 0x1p-20) == 1 + 16);
}

TEMPLATE_TEST_CASE("a value within its relative error keeps the derived tolerance once rounded",
                   "[rounding]", float, float16, bfloat16, float8_e4m3fn) {
  const Dtype dtype = dtype_of<TestType>;
  const double relative = GENERATE(0x1p-20, 0x1p-9, 0.02, 0.3);
  const double tolerance = rounding_tolerance(dtype, relative);
  // Both sides of a power of two, where the spacing doubles.
  for (int i = 0; i <= 4000; ++i) {
    const double expected = 1.5 + 0.00025 * i;
    for (const double off : {1 - relative, 1 - relative / 3, 1 + relative / 3, 1 + relative}) {
      const double rounded = round_to(dtype, expected * off);
      REQUIRE(std::abs(rounded - expected) <= tolerance * ulp(dtype, expected));
    }
  }
}
