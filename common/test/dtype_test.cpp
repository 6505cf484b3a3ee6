// Every pattern of the small formats, every midpoint between neighbours, and a sweep through the
// float32 patterns, against values built in double from sign, exponent and mantissa.

#include "common/dtype.hpp"

#include <algorithm>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <cmath>
#include <limits>

#include "common/test/sweep.hpp"
#include "common/verify.hpp"

using namespace opbook;
using namespace opbook::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The layout of a format, and its fixed points in hexadecimal.
template <class T>
struct Layout;

template <>
struct Layout<float16> {
  static constexpr int exponent_bits = 5, mantissa_bits = 10;
  static constexpr std::uint32_t largest = 0x7BFF, beyond = 0x7C00, nan = 0x7FFF;
  static constexpr bool has_inf = true;
};

template <>
struct Layout<bfloat16> {
  static constexpr int exponent_bits = 8, mantissa_bits = 7;
  static constexpr std::uint32_t largest = 0x7F7F, beyond = 0x7F80, nan = 0x7FFF;
  static constexpr bool has_inf = true;
};

template <>
struct Layout<float8_e4m3fn> {
  static constexpr int exponent_bits = 4, mantissa_bits = 3;
  static constexpr std::uint32_t largest = 0x7E, beyond = 0x7E, nan = 0x7F;
  static constexpr bool has_inf = false;
};

template <class T>
constexpr std::uint32_t sign_bit = 1u << (Layout<T>::exponent_bits + Layout<T>::mantissa_bits);

template <class T>
T from_bits(std::uint32_t bits) {
  return {static_cast<decltype(T::bits)>(bits)};
}

/// What sign, exponent and mantissa say, as if no pattern stood for Inf or NaN.
template <class T>
double decode_finite(std::uint32_t bits) {
  using L = Layout<T>;
  const int bias = (1 << (L::exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>((bits & (sign_bit<T> - 1)) >> L::mantissa_bits);
  const int mantissa = static_cast<int>(bits & ((1u << L::mantissa_bits) - 1));
  const int significand = exponent == 0 ? mantissa : mantissa + (1 << L::mantissa_bits);
  const double magnitude = std::ldexp(significand, std::max(exponent, 1) - bias - L::mantissa_bits);
  return (bits & sign_bit<T>) != 0 ? -magnitude : magnitude;
}

template <class T>
double decode(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & (sign_bit<T> - 1);
  if (magnitude <= Layout<T>::largest) return decode_finite<T>(bits);
  if (magnitude > Layout<T>::beyond) return std::numeric_limits<double>::quiet_NaN();
  return (bits & sign_bit<T>) != 0 ? -infinity : infinity;
}

/// Equal as values, the sign of zero included; any NaN equals any other.
bool same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

}  // namespace

#define SMALL_FORMATS float16, bfloat16, float8_e4m3fn

TEMPLATE_TEST_CASE("every pattern means what its sign, exponent and mantissa say", "[dtype]",
                   SMALL_FORMATS) {
  const auto holds = [](std::uint32_t bits) {
    return same(to_float(from_bits<TestType>(bits)), decode<TestType>(bits));
  };
  CHECK(first_failure(2 * sign_bit<TestType>, holds) == "none");
}

TEMPLATE_TEST_CASE("every pattern survives the way to float32 and back, NaN as the canonical one",
                   "[dtype]", SMALL_FORMATS) {
  const auto holds = [](std::uint32_t bits) {
    const TestType back = from_float<TestType>(to_float(from_bits<TestType>(bits)));
    return back.bits == (std::isnan(decode<TestType>(bits)) ? Layout<TestType>::nan : bits);
  };
  CHECK(first_failure(2 * sign_bit<TestType>, holds) == "none");
}

TEMPLATE_TEST_CASE("every midpoint rounds to even, and its float32 neighbours to the nearer number",
                   "[dtype]", SMALL_FORMATS) {
  // Up to and including the midpoint between the largest number and Inf, where there is one.
  const auto holds = [](std::uint32_t low) {
    const std::uint32_t high = low + 1;
    const float middle =
        static_cast<float>((decode_finite<TestType>(low) + decode_finite<TestType>(high)) / 2);
    const std::uint32_t even = (low & 1) == 0 ? low : high;
    for (const float sign : {1.0f, -1.0f}) {
      const std::uint32_t s = sign < 0 ? sign_bit<TestType> : 0;
      if (from_float<TestType>(sign * middle).bits != (s | even)) return false;
      if (from_float<TestType>(sign * std::nextafter(middle, 0.0f)).bits != (s | low)) return false;
      if (from_float<TestType>(sign * std::nextafter(middle, infinity)).bits != (s | high)) {
        return false;
      }
    }
    return true;
  };
  CHECK(first_failure(Layout<TestType>::beyond, holds) == "none");
}

TEMPLATE_TEST_CASE("zero and Inf keep their signs", "[dtype]", SMALL_FORMATS) {
  CHECK(from_float<TestType>(0.0f).bits == 0);
  CHECK(from_float<TestType>(-0.0f).bits == sign_bit<TestType>);
  // Where there is no Inf, it saturates.
  CHECK(from_float<TestType>(infinity).bits == Layout<TestType>::beyond);
  CHECK(from_float<TestType>(-infinity).bits == (Layout<TestType>::beyond | sign_bit<TestType>));
  CHECK(from_float<TestType>(0x1.fffffep127f).bits == Layout<TestType>::beyond);
  CHECK(from_float<TestType>(-0x1.fffffep127f).bits ==
        (Layout<TestType>::beyond | sign_bit<TestType>));
}

TEMPLATE_TEST_CASE("numbers below half of the smallest step become zeros of their sign", "[dtype]",
                   SMALL_FORMATS) {
  const auto half = static_cast<float>(decode<TestType>(1) / 2);
  for (const float tiny : {half, std::nextafter(half, 0.0f), 0x1p-149f}) {
    CHECK(from_float<TestType>(tiny).bits == 0);
    CHECK(from_float<TestType>(-tiny).bits == sign_bit<TestType>);
  }
  CHECK(from_float<TestType>(std::nextafter(half, infinity)).bits == 1);
}

TEMPLATE_TEST_CASE("a NaN of any payload and sign becomes the canonical NaN", "[dtype]",
                   SMALL_FORMATS) {
  for (const std::uint32_t sign : {0u, 0x80000000u}) {
    for (int bit = 0; bit < 23; ++bit) {
      const auto nan = std::bit_cast<float>(sign | 0x7F800000u | (1u << bit));
      CHECK(from_float<TestType>(nan).bits == Layout<TestType>::nan);
    }
    CHECK(from_float<TestType>(std::bit_cast<float>(sign | 0x7FFFFFFFu)).bits ==
          Layout<TestType>::nan);
  }
}

TEMPLATE_TEST_CASE("conversion agrees with rounding in double throughout float32", "[dtype]",
                   SMALL_FORMATS) {
  const auto holds = [](std::uint32_t bits) {
    const auto value = std::bit_cast<float>(bits);
    return same(to_float(from_float<TestType>(value)), round_to(dtype_of<TestType>, value));
  };
  CHECK(first_failure(float32_patterns, holds, sweep_stride) == "none");
}

TEMPLATE_TEST_CASE("the stated range and precision are those of the patterns", "[dtype]",
                   SMALL_FORMATS) {
  using L = Layout<TestType>;
  const Dtype dtype = dtype_of<TestType>;
  CHECK(size_of(dtype) == sizeof(TestType));
  CHECK(size_of(dtype) * 8 == 1 + L::exponent_bits + L::mantissa_bits);
  CHECK(significand_bits(dtype) == L::mantissa_bits + 1);
  CHECK(max_finite(dtype) == decode<TestType>(L::largest));
  CHECK(std::ldexp(1.0, min_exponent(dtype)) == decode<TestType>(1u << L::mantissa_bits));
  CHECK((from_float<TestType>(infinity).bits != L::largest) == L::has_inf);
}

TEST_CASE("e4m3 saturates at 448 and never becomes NaN by overflow", "[dtype]") {
  for (const float value : {448.0f, 449.0f, 464.0f, 465.0f, 480.0f, 500.0f, 1e30f, infinity}) {
    CHECK(to_float(from_float<float8_e4m3fn>(value)) == 448.0f);
    CHECK(to_float(from_float<float8_e4m3fn>(-value)) == -448.0f);
  }
}

TEST_CASE("float32 to float32 changes no bit, payloads of NaN included", "[dtype]") {
  for (const std::uint32_t bits : {0x7F800001u, 0xFFC01234u, 0x80000000u, 0x00000001u}) {
    CHECK(std::bit_cast<std::uint32_t>(from_float<float>(std::bit_cast<float>(bits))) == bits);
    CHECK(std::bit_cast<std::uint32_t>(to_float(std::bit_cast<float>(bits))) == bits);
  }
  CHECK(significand_bits(Dtype::float32) == std::numeric_limits<float>::digits);
  CHECK(max_finite(Dtype::float32) == std::numeric_limits<float>::max());
  CHECK(std::ldexp(1.0, min_exponent(Dtype::float32)) == std::numeric_limits<float>::min());
}

TEST_CASE("conversions work at compile time", "[dtype]") {
  STATIC_CHECK(from_float<float16>(1.0f).bits == 0x3C00);
  STATIC_CHECK(from_float<float16>(0x1p-24f).bits == 0x0001);
  STATIC_CHECK(from_float<bfloat16>(-2.0f).bits == 0xC000);
  STATIC_CHECK(from_float<float8_e4m3fn>(0x1p-9f).bits == 0x01);
  STATIC_CHECK(to_float(float16{0x0001}) == 0x1p-24f);
  STATIC_CHECK(to_float(float8_e4m3fn{0x38}) == 1.0f);
}

TEST_CASE("each dtype has its own name, size and kind", "[dtype]") {
  CHECK(name_of(Dtype::float32) == "float32");
  CHECK(name_of(Dtype::float16) == "float16");
  CHECK(name_of(Dtype::bfloat16) == "bfloat16");
  CHECK(name_of(Dtype::float8_e4m3fn) == "float8_e4m3fn");
  CHECK(name_of(Dtype::int32) == "int32");
  CHECK(name_of(Dtype::int64) == "int64");
  CHECK(size_of(Dtype::float32) == 4);
  CHECK(size_of(Dtype::int32) == 4);
  CHECK(size_of(Dtype::int64) == 8);
  for (const Dtype dtype : float_dtypes) CHECK(is_float(dtype));
  CHECK_FALSE(is_float(Dtype::int32));
  CHECK_FALSE(is_float(Dtype::int64));
  STATIC_CHECK(dtype_of<float> == Dtype::float32);
  STATIC_CHECK(dtype_of<std::int32_t> == Dtype::int32);
  STATIC_CHECK(dtype_of<std::int64_t> == Dtype::int64);
}

TEST_CASE("inputs come in float32, float16 and bfloat16; any other dtype is refused", "[dtype]") {
  const auto own_name = []<class T>() { return name_of(dtype_of<T>); };
  for (const Dtype dtype : {Dtype::float32, Dtype::float16, Dtype::bfloat16}) {
    CHECK(visit_input_dtype(dtype, own_name) == name_of(dtype));
  }
  CHECK_THROWS_WITH(visit_input_dtype(Dtype::float8_e4m3fn, own_name),
                    "dtype: got float8_e4m3fn; allowed: float32, float16, bfloat16");
  CHECK_THROWS_AS(visit_input_dtype(Dtype::int64, own_name), ArgumentError);
}
