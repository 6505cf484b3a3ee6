#pragma once

// The four number formats of the book and their conversions, bit-equal to CUDA's: round to nearest,
// ties to even; NaN becomes the canonical one (0x7FFF, 0x7F); e4m3 saturates to +-448, also from
// Inf.

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "common/error.hpp"

namespace opbook {

/// IEEE binary16: 1 sign, 5 exponent, 10 mantissa bits. Plain data, no CUDA header needed.
struct float16 {
  std::uint16_t bits;
};

/// The upper half of a float32: 1 sign, 8 exponent, 7 mantissa bits.
struct bfloat16 {
  std::uint16_t bits;
};

/// OCP FP8 E4M3 "fn": 1 sign, 4 exponent, 3 mantissa bits; largest 448, no Inf, NaN 0x7F and 0xFF.
struct float8_e4m3fn {
  std::uint8_t bits;
};

constexpr bool operator==(float16 a, float16 b) {
  return a.bits == b.bits;
}
constexpr bool operator==(bfloat16 a, bfloat16 b) {
  return a.bits == b.bits;
}
constexpr bool operator==(float8_e4m3fn a, float8_e4m3fn b) {
  return a.bits == b.bits;
}

constexpr float to_float(float value) {
  return value;
}

constexpr float to_float(bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

constexpr float to_float(float16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = value.bits & 0x7FFFu;
  std::uint32_t result;
  if (magnitude >= 0x7C00u) {  // Inf and NaN: the exponent field becomes all ones
    result = (magnitude << 13) | 0x7F800000u;
  } else if (magnitude >= 0x0400u) {  // normal: the bias moves from 15 to 127
    result = (magnitude << 13) + (112u << 23);
  } else {  // subnormal: magnitude * 2^-24, exact in float32
    result = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  }
  return std::bit_cast<float>(sign | result);
}

constexpr float to_float(float8_e4m3fn value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x80u) << 24;
  const std::uint32_t magnitude = value.bits & 0x7Fu;
  std::uint32_t result;
  if (magnitude == 0x7Fu) {
    result = 0x7FC00000u;
  } else if (magnitude >= 0x08u) {  // normal: the bias moves from 7 to 127
    result = (magnitude << 20) + (120u << 23);
  } else {  // subnormal: magnitude * 2^-9
    result = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-9f);
  }
  return std::bit_cast<float>(sign | result);
}

/// Rounds a float32 to T: nearest, ties to even. Float32 to float32 is the identity, NaN payloads
/// included.
template <class T>
constexpr T from_float(float value);

template <>
constexpr float from_float<float>(float value) {
  return value;
}

template <>
constexpr bfloat16 from_float<bfloat16>(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {0x7FFF};
  // Adding just under half a unit, plus one where the kept part is odd, carries exactly when
  // rounding to nearest even does; a carry out of the mantissa lands in the exponent, as it should.
  return {static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

template <>
constexpr float16 from_float<float16>(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return {0x7FFF};
  std::uint32_t result;
  if (magnitude >= 0x477FF000u) {  // 65520 and above round to Inf
    result = 0x7C00u;
  } else if (magnitude < 0x38800000u) {
    // Below 2^-14: the last bit of a float32 in [0.5, 1) is 2^-24, float16's smallest step, so the
    // addition itself rounds.
    result = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
  } else {
    magnitude += 0x0FFFu + ((magnitude >> 13) & 1u);
    result = (magnitude - (112u << 23)) >> 13;
  }
  return {static_cast<std::uint16_t>(sign | result)};
}

template <>
constexpr float8_e4m3fn from_float<float8_e4m3fn>(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 24) & 0x80u;
  std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return {0x7F};
  std::uint32_t result;
  if (magnitude >= 0x43E00000u) {  // 448 and above saturate
    result = 0x7Eu;
  } else if (magnitude < 0x3C800000u) {
    // Below 2^-6: the last bit of a float32 in [2^14, 2^15) is 2^-9, e4m3's smallest step.
    result = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) - 0x46800000u;
  } else {
    magnitude += 0x7FFFFu + ((magnitude >> 20) & 1u);
    result = (magnitude - (120u << 23)) >> 20;
  }
  return {static_cast<std::uint8_t>(sign | result)};
}

/// The formats by name, for tables, JSON, files and the command line. The two integer types hold
/// positions only.
enum class Dtype { float32, float16, bfloat16, float8_e4m3fn, int32, int64 };

constexpr Dtype float_dtypes[] = {Dtype::float32, Dtype::float16, Dtype::bfloat16,
                                  Dtype::float8_e4m3fn};

constexpr bool is_float(Dtype dtype) {
  return dtype != Dtype::int32 && dtype != Dtype::int64;
}

/// Bytes of one element.
constexpr std::int64_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32:
      return 4;
    case Dtype::float16:
      return 2;
    case Dtype::bfloat16:
      return 2;
    case Dtype::float8_e4m3fn:
      return 1;
    case Dtype::int32:
      return 4;
    case Dtype::int64:
      return 8;
  }
  return 0;
}

constexpr std::string_view name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32:
      return "float32";
    case Dtype::float16:
      return "float16";
    case Dtype::bfloat16:
      return "bfloat16";
    case Dtype::float8_e4m3fn:
      return "float8_e4m3fn";
    case Dtype::int32:
      return "int32";
    case Dtype::int64:
      return "int64";
  }
  return "?";
}

/// Floats only: bits of the significand, the hidden one included: a value in [1, 2) has ulp 2^(1 -
/// this).
constexpr int significand_bits(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32:
      return 24;
    case Dtype::float16:
      return 11;
    case Dtype::bfloat16:
      return 8;
    case Dtype::float8_e4m3fn:
      return 4;
    default:
      return 0;
  }
}

/// Floats only: exponent of the smallest normal number: 2^this.
constexpr int min_exponent(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32:
      return -126;
    case Dtype::float16:
      return -14;
    case Dtype::bfloat16:
      return -126;
    case Dtype::float8_e4m3fn:
      return -6;
    default:
      return 0;
  }
}

/// Floats only: the largest finite value.
constexpr double max_finite(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32:
      return 0x1.fffffep127;
    case Dtype::float16:
      return 65504.0;
    case Dtype::bfloat16:
      return 0x1.fep127;
    case Dtype::float8_e4m3fn:
      return 448.0;
    default:
      return 0;
  }
}

template <class T>
inline constexpr Dtype dtype_of = [] {
  if constexpr (std::is_same_v<T, float>) return Dtype::float32;
  if constexpr (std::is_same_v<T, float16>) return Dtype::float16;
  if constexpr (std::is_same_v<T, bfloat16>) return Dtype::bfloat16;
  if constexpr (std::is_same_v<T, float8_e4m3fn>) return Dtype::float8_e4m3fn;
  if constexpr (std::is_same_v<T, std::int32_t>) return Dtype::int32;
  if constexpr (std::is_same_v<T, std::int64_t>) return Dtype::int64;
}();

/// Calls `f.template operator()<T>()` with the C++ type of one of the three input dtypes; throws
/// ArgumentError for any other.
template <class F>
decltype(auto) visit_input_dtype(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::float32:
      return f.template operator()<float>();
    case Dtype::float16:
      return f.template operator()<float16>();
    case Dtype::bfloat16:
      return f.template operator()<bfloat16>();
    default:
      break;
  }
  throw ArgumentError("dtype: got " + std::string(name_of(dtype)) +
                      "; allowed: float32, float16, bfloat16");
}

}  // namespace opbook
