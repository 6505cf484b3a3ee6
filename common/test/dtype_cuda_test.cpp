// Our conversions against those that CUDA's headers run on the host: no GPU and no nvcc needed.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <bit>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/dtype.hpp"
#include "common/test/sweep.hpp"

using namespace opbook;
using namespace opbook::test;

namespace {

template <class T>
struct Cuda;

template <>
struct Cuda<float16> {
  static std::uint32_t from_float(float value) { return __half_raw(__float2half_rn(value)).x; }
  static float to_float(std::uint32_t bits) {
    __half_raw raw;
    raw.x = static_cast<unsigned short>(bits);
    return __half2float(__half(raw));
  }
};

template <>
struct Cuda<bfloat16> {
  static std::uint32_t from_float(float value) {
    return __nv_bfloat16_raw(__float2bfloat16_rn(value)).x;
  }
  static float to_float(std::uint32_t bits) {
    __nv_bfloat16_raw raw;
    raw.x = static_cast<unsigned short>(bits);
    return __bfloat162float(__nv_bfloat16(raw));
  }
};

template <>
struct Cuda<float8_e4m3fn> {
  static std::uint32_t from_float(float value) {
    return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
  }
  static float to_float(std::uint32_t bits) {  // float16 holds every e4m3 number exactly
    const auto code = static_cast<__nv_fp8_storage_t>(bits);
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
  }
};

template <class T>
constexpr std::uint64_t patterns = std::uint64_t{1} << (8 * sizeof(T));

template <class T>
float value_of(std::uint64_t bits) {
  return to_float(T{static_cast<decltype(T::bits)>(bits)});
}

template <class T>
bool agree_on(float value) {
  return from_float<T>(value).bits == Cuda<T>::from_float(value);
}

}  // namespace

#define SMALL_FORMATS float16, bfloat16, float8_e4m3fn

TEMPLATE_TEST_CASE("every pattern converts to float32 as in CUDA", "[dtype][cuda_headers]",
                   SMALL_FORMATS) {
  const auto holds = [](std::uint32_t bits) {
    const float ours = value_of<TestType>(bits);
    const float theirs = Cuda<TestType>::to_float(bits);
    if (std::isnan(ours) || std::isnan(theirs)) return std::isnan(ours) && std::isnan(theirs);
    return std::bit_cast<std::uint32_t>(ours) == std::bit_cast<std::uint32_t>(theirs);
  };
  CHECK(first_failure(patterns<TestType>, holds) == "none");
}

TEMPLATE_TEST_CASE("every number, midpoint and float32 next to them rounds as in CUDA",
                   "[dtype][cuda_headers]", SMALL_FORMATS) {
  const auto holds = [](std::uint32_t bits) {
    const double low = value_of<TestType>(bits);
    const double high = value_of<TestType>((bits + 1) % patterns<TestType>);
    for (const float value : {static_cast<float>(low), static_cast<float>((low + high) / 2)}) {
      for (const float toward : {-HUGE_VALF, value, HUGE_VALF}) {
        if (!agree_on<TestType>(std::nextafter(value, toward))) return false;
      }
    }
    return true;
  };
  CHECK(first_failure(patterns<TestType>, holds) == "none");
}

TEMPLATE_TEST_CASE("float32 patterns of every kind round as in CUDA, NaN and overflow included",
                   "[dtype][cuda_headers]", SMALL_FORMATS) {
  const auto holds = [](std::uint32_t bits) {
    return agree_on<TestType>(std::bit_cast<float>(bits));
  };
  CHECK(first_failure(float32_patterns, holds, sweep_stride) == "none");

  for (const float value :
       {65504.0f, 65519.996f, 65520.0f, 0x1.fefffep127f, 0x1.ffp127f, 0x1.fffffep127f, 464.0f,
        465.0f, 500.0f, HUGE_VALF, std::numeric_limits<float>::quiet_NaN()}) {
    CHECK(agree_on<TestType>(value));
    CHECK(agree_on<TestType>(-value));
  }
}
