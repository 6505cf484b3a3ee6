#pragma once

// Sixteen bytes at a time: how a thread reads and writes memory, and what it makes of them. The
// 16-bit types travel packed, two in a register, and become float32 where they are computed with.

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "common/cuda/sm.cuh"
#include "common/dtype.hpp"
#include "common/rows.hpp"

namespace opbook::gpu {

/// Elements in 16 bytes: 4 of float32, 8 of the 16-bit types.
template <class T>
inline constexpr int vector_width = 16 / static_cast<int>(sizeof(T));

/// Those elements, packed.
template <class T>
struct alignas(16) Vector {
  std::uint32_t words[4];
};

__device__ inline float as_float(float value) {
  return value;
}
__device__ inline float as_float(float16 value) {
  return __half2float(__ushort_as_half(value.bits));
}
__device__ inline float as_float(bfloat16 value) {
  return __uint_as_float(static_cast<std::uint32_t>(value.bits) << 16);
}

/// Two float32 rounded to bfloat16, to nearest even, the first in the lower half; NaN is 0x7FFF.
__device__ inline std::uint32_t pack_bfloat16(float low, float high) {
#if OPBOOK_SM >= 800
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#else
  const auto round = [](float value) {
    const std::uint32_t bits = __float_as_uint(value);
    if (value != value) return 0x7FFFu;
    return (bits + 0x7FFFu + ((bits >> 16) & 1)) >> 16;
  };
  return round(low) | round(high) << 16;
#endif
}

template <class T>
__device__ T rounded_to(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else if constexpr (std::is_same_v<T, float16>) {
    return {__half_as_ushort(__float2half_rn(value))};
  } else {
    return {static_cast<std::uint16_t>(pack_bfloat16(value, 0.0f))};
  }
}

/// The elements of a 32-bit word as float32, exactly: one of float32, two of the 16-bit types.
template <class T>
__device__ float2 unpack_word(std::uint32_t word) {
  if constexpr (std::is_same_v<T, float>) {
    return {__uint_as_float(word), 0.0f};
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xFFFF0000u)};
  } else {
    return __half22float2(reinterpret_cast<const __half2&>(word));
  }
}

/// Rounded to nearest even.
template <class T>
__device__ std::uint32_t pack_word(float low, float high) {
  if constexpr (std::is_same_v<T, float>) {
    return __float_as_uint(low);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return pack_bfloat16(low, high);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const std::uint32_t&>(pair);
  }
}

/// The elements as float32, exactly.
template <class T>
__device__ void unpack(const Vector<T>& vector, float (&values)[vector_width<T>]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 pair = unpack_word<T>(vector.words[j]);
    if constexpr (std::is_same_v<T, float>) {
      values[j] = pair.x;
    } else {
      values[2 * j] = pair.x;
      values[2 * j + 1] = pair.y;
    }
  }
}

/// Rounded to nearest even.
template <class T>
__device__ Vector<T> pack(const float (&values)[vector_width<T>]) {
  Vector<T> vector;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if constexpr (std::is_same_v<T, float>) {
      vector.words[j] = pack_word<T>(values[j], 0.0f);
    } else {
      vector.words[j] = pack_word<T>(values[2 * j], values[2 * j + 1]);
    }
  }
  return vector;
}

/// f of the elements of vectors, element by element, rounded to nearest even. A word of each at a
/// time: unpacked as a whole, vectors would take twice the registers.
template <class T, class F, class... Vectors>
__device__ Vector<T> map_elements(F f, const Vectors&... vectors) {
  Vector<T> result;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float low = f(unpack_word<T>(vectors.words[j]).x...);
    const float high = sizeof(T) == 4 ? 0.0f : f(unpack_word<T>(vectors.words[j]).y...);
    result.words[j] = pack_word<T>(low, high);
  }
  return result;
}

/// Vector i of a row on a 16-byte boundary.
template <class T>
__device__ Vector<T> load_vector(const T* row, int i) {
  return reinterpret_cast<const Vector<T>*>(row)[i];
}
/// Vector i of a row if `wanted`, else `otherwise`. Asked for where it stands: left to itself, the
/// compiler moves a load down to where its value is needed, behind the barriers that were to hide
/// its wait.
template <class T>
__device__ Vector<T> load_vector_if(bool wanted, const T* row, int i, Vector<T> otherwise = {}) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %4, 0; @p ld.global.v4.u32 {%0, %1, %2, %3}, [%5]; }"
               : "+r"(otherwise.words[0]), "+r"(otherwise.words[1]), "+r"(otherwise.words[2]),
                 "+r"(otherwise.words[3])
               : "r"(static_cast<unsigned>(wanted)),
                 "l"(row + static_cast<std::int64_t>(i) * vector_width<T>));
  return otherwise;
}
template <class T>
__device__ void store_vector(T* row, int i, const Vector<T>& vector) {
  reinterpret_cast<Vector<T>*>(row)[i] = vector;
}

/// The same elements of a row on any boundary, one by one; those beyond `size` are zeros.
template <class T>
__device__ Vector<T> load_elements(const T* row, std::int64_t i, std::int64_t size) {
  float values[vector_width<T>];
#pragma unroll
  for (int j = 0; j < vector_width<T>; ++j) {
    const std::int64_t at = i * vector_width<T> + j;
    values[j] = at < size ? as_float(row[at]) : 0.0f;
  }
  return pack<T>(values);
}

/// `width` neighbours as float32: one, or a whole vector on its boundary.
template <int width, class T>
__device__ void load_floats(const T* from, float (&values)[width]) {
  if constexpr (width == 1) {
    values[0] = as_float(*from);
  } else {
    unpack<T>(load_vector(from, 0), values);
  }
}
template <int width, class T>
__device__ void store_floats(T* to, const float (&values)[width]) {
  if constexpr (width == 1) {
    *to = rounded_to<T>(values[0]);
  } else {
    store_vector(to, 0, pack<T>(values));
  }
}

/// Row i of a view.
template <class T>
__device__ T* row_of(const Rows<T>& rows, std::int64_t i) {
  if (rows.inner == 1) return rows.data + i * rows.outer_stride;
  return rows.data + (i / rows.inner) * rows.outer_stride + (i % rows.inner) * rows.inner_stride;
}

/// Two e4m3 codes, saturating at +-448; NaN is 0x7F. The first in the lower byte.
__device__ inline std::uint32_t pack_e4m3(float low, float high) {
  return __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE, __NV_E4M3);
}

/// Whether every row lies on 16-byte boundaries and ends on one.
template <class T>
bool on_vectors(Rows<T> rows) {
  const auto whole = [](std::int64_t elements) {
    return elements % vector_width<std::remove_const_t<T>> == 0;
  };
  return reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 && whole(rows.cols) &&
         (rows.outer <= 1 || whole(rows.outer_stride)) &&
         (rows.inner <= 1 || whole(rows.inner_stride));
}
template <class T>
bool on_vectors(Row<T> row) {
  return on_vectors(one_row(row));
}

}  // namespace opbook::gpu
