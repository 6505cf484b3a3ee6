// Why three instructions, and nearly always two, make the codes of a true division, for any float32
// y (common/cuda/quantise.cuh).
//
// Three: with inv = rn(1 / s), t = rn(y inv) lies within 1.5 ulp of y / s, and the corrected
// quotient q = rn(t - (t s - y) inv) is the rounding of a number within 3 * 2^-24 ulp of y / s. It
// can lie on another side of a midpoint M between two codes than the true quotient rn(y / s) only
// if a midpoint between M and one of its float32 neighbours lies as near to y / s. M has five
// significant bits: M = k / 16 with k from 16 to 31, powers of two aside. With y and s as 24-bit
// integers A and B, A possibly doubled, that is
//     |2^20 (16 A - k B) -+ B| <= 6,
// so that B = j 2^20 + e with |e| <= 6, j from 8 to 16, and 16 A - k B = +-j: few pairs, each tried
// here, and for good measure up to |e| = 4096.
//
// Two: with inv the largest float32 not above 1 / s, and rest what it lacks, q = rn(y inv + y rest)
// is the rounding of a number within 2^-45 of y / s, relatively. Again it matters only next to
// those midpoints between M and a neighbour: under each of the 2^23 mantissas of s the float32 y
// next to them are tried.

#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <set>

#include "common/dtype.hpp"

using namespace opbook;

namespace {

float corrected_quotient(float y, float s) {
  const float inverse = 1.0f / s;
  const float quotient = y * inverse;
  return std::fma(std::fma(quotient, s, -y), -inverse, quotient);
}

/// y and s of these mantissas, their quotient near 2^exponent: within the codes.
bool same_code(float y, float s, int exponent) {
  const float scaled = std::ldexp(y, exponent);
  return from_float<float8_e4m3fn>(corrected_quotient(scaled, s)).bits ==
         from_float<float8_e4m3fn>(scaled / s).bits;
}

}  // namespace

TEST_CASE("no quotient near a midpoint between codes rounds to another code") {
  std::int64_t tried = 0, wrong = 0;
  for (std::int64_t k = 16; k < 32; ++k) {
    for (std::int64_t j = 8; j <= 16; ++j) {
      for (std::int64_t e = -4096; e <= 4096; ++e) {
        for (const std::int64_t side : {-j, j}) {
          const std::int64_t b = (j << 20) + e, sixteen_a = k * b + side;
          if (b < 1 << 23 || b >= 1 << 24 || sixteen_a % 16 != 0) continue;
          const std::int64_t a = sixteen_a / 16;
          if (a >= 1 << 24 && a % 2 != 0) continue;  // not a float32
          for (const float y : {static_cast<float>(a), std::nextafter(static_cast<float>(a), 0.0f),
                                std::nextafter(static_cast<float>(a), 1e9f)}) {
            for (const int exponent : {-9, -8, -7, -6, 0, 8}) {
              ++tried;
              if (!same_code(y, static_cast<float>(b), exponent)) ++wrong;
            }
          }
        }
      }
    }
  }
  CHECK(tried > 1000000);
  CHECK(wrong == 0);
}

TEST_CASE("an inverse in two parts makes the codes of a division, under all scales but three") {
  std::int64_t tried = 0;
  std::set<std::uint32_t> wrong;  // mantissas
  for (std::uint32_t mantissa = 0; mantissa < 1u << 23; ++mantissa) {
    const float s = std::bit_cast<float>(0x3F800000u | mantissa);
    float inverse = 1.0f / s;
    if (std::fma(-s, inverse, 1.0f) < 0) inverse = std::nextafter(inverse, 0.0f);
    const float rest = std::fma(-s, inverse, 1.0f) * inverse;
    for (int k = 16; k < 32; ++k) {
      for (const double half_an_ulp : {-0x1p-25, -0x1p-24, 0x1p-24}) {
        const auto y = static_cast<float>((k / 16.0 + half_an_ulp) * static_cast<double>(s));
        for (const float beside : {std::nextafter(y, 0.0f), y, std::nextafter(y, 9.0f)}) {
          const float q = std::fma(beside, inverse, beside * rest), exact = beside / s;
          ++tried;
          if (q == exact || (q != k / 16.0f && exact != k / 16.0f)) continue;
          wrong.insert(mantissa);
        }
      }
    }
  }
  CHECK(tried == (std::int64_t{1} << 23) * 16 * 3 * 3);
  CHECK(wrong == std::set<std::uint32_t>{0x5FFFFD, 0x5FFFFE, 0x7FFFFF});
  for (const std::uint32_t mantissa : wrong) {
    CHECK((mantissa & 0x1FFFFC) == 0x1FFFFC);  // TwoPartInverse::serves_float32 leaves them out
  }
}

TEST_CASE("the scale in three instructions is that of a division, for every mantissa") {
  std::int64_t wrong = 0;
  for (std::uint32_t mantissa = 0; mantissa < 1u << 23; ++mantissa) {
    const float amax = 1.0f + static_cast<float>(mantissa) * 0x1p-23f;
    const float inverse = 1.0f / 448.0f, quotient = amax * inverse;
    const float scale = std::fma(std::fma(quotient, 448.0f, -amax), -inverse, quotient);
    if (scale != amax / 448.0f) ++wrong;
  }
  CHECK(wrong == 0);
}
