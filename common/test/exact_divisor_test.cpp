#include "common/exact_divisor.hpp"

#include <bit>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/build_kind.hpp"
#include "common/random.hpp"

using namespace opbook;

namespace {

/// Scales as quantisation makes them, amax / 448 from the floor 1e-4 to float32's large numbers,
/// with every kind of mantissa: random ones, all ones, a single one.
std::vector<float> scales(int count) {
  std::vector<float> result = {1e-4f / 448.0f, 1.0f,           1.0f / 448.0f, 0x1.fffffep-5f,
                               0x1.000002p3f,  0x1.fffffep50f, 0x1p-59f};
  for (int i = 0; i < count; ++i) {
    const std::uint64_t bits = random_bits(11, "scales", i);
    const float mantissa = 1.0f + static_cast<float>(bits & 0x7FFFFF) * 0x1p-23f;
    result.push_back(std::ldexp(mantissa, static_cast<int>(bits >> 32) % 60 - 20));
  }
  return result;
}

template <class T>
std::vector<T> all_finite() {
  std::vector<T> values;
  for (int i = 0; i < 65536; ++i) {
    const T value{static_cast<std::uint16_t>(i)};
    if (std::isfinite(to_float(value))) values.push_back(value);
  }
  return values;
}

}  // namespace

TEMPLATE_TEST_CASE("quantising by the exact divisor gives the codes of the true division", "",
                   float16, bfloat16) {
  const std::vector<TestType> values = all_finite<TestType>();
  constexpr int count = times_count ? 1000 : 50;  // fewer where every operation is slow
  std::int64_t compared = 0;
  for (const float scale : scales(count)) {
    const ExactDivisor divisor(scale);
    if (!divisor.usable) continue;
    std::int64_t differ = 0;
    for (std::size_t i = 0; i + pack_lanes <= values.size(); i += pack_lanes) {
      const Pack y = load_pack(values.data() + i);
      float8_e4m3fn fast[pack_lanes], exact[pack_lanes];
      store_pack(fast, divisor.divide(y));
      store_pack(exact, y / Pack(scale));
      for (int lane = 0; lane < pack_lanes; ++lane) {
        const bool within = std::fabs(y.lanes[lane]) <= 0x1p20f * scale;  // quantising stays at 448
        differ += within && !(fast[lane] == exact[lane]);
        compared += within;
      }
    }
    INFO("scale " << scale);
    REQUIRE(differ == 0);
  }
  CHECK((compared > 10'000 * count || !has_fused_multiply_add));
}

TEST_CASE("where nothing underflows the exact divisor's quotient is the true one to the bit") {
  std::int64_t compared = 0;
  for (const float scale : scales(200)) {
    const ExactDivisor divisor(scale);
    for (int i = 0; i < 20000; ++i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(random_bits(12, "values", i));
      const float y = std::bit_cast<float>(bits);
      const float quotient = y / scale;
      if (!(std::fabs(y) > 0x1p-60f && std::fabs(quotient) < 0x1p20f &&
            std::fabs(quotient) > 0x1p-60f)) {
        continue;
      }
      ++compared;
      REQUIRE(divisor.divide(y) == quotient);
    }
  }
  CHECK(compared > 100000);
}

TEST_CASE("zeros keep their signs through the exact divisor") {
  for (const float scale : scales(20)) {
    const ExactDivisor divisor(scale);
    if (!divisor.usable) continue;
    float zeros[64], quotients[64];
    for (int i = 0; i < 64; ++i) zeros[i] = i % 3 == 0 ? -0.0f : 0.0f;
    for (int i = 0; i < 64; i += pack_lanes) {
      store_pack(quotients + i, divisor.divide(load_pack(zeros + i)));
    }
    for (int i = 0; i < 64; ++i) {
      REQUIRE(std::signbit(quotients[i]) == std::signbit(zeros[i]));
      REQUIRE(std::signbit(divisor.divide(zeros[i])) == std::signbit(zeros[i]));
    }
  }
}

TEST_CASE("divisors that the method is not exact for are not usable") {
  for (const float divisor :
       {0.0f, -1.0f, 0x1p-100f, 0x1p100f, std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    CHECK_FALSE(ExactDivisor(divisor).usable);
  }
  CHECK(ExactDivisor(1e-4f / 448.0f).usable == has_fused_multiply_add);
}
