#pragma once

// Quantisation to FP8 e4m3 on a device: the scale of what has a largest magnitude, and codes of
// exact quotients.

#include <cstdint>
#include <type_traits>

#include "common/cuda/reduce.cuh"

namespace opbook::gpu {

/// amax = max(max |y|, 1e-4), scale = amax / 448, correctly rounded: the multiplication by rn(1 /
/// 448), corrected once as in Quotient, which a test holds against the division for every mantissa.
/// `bits` is the pattern of max |y|; NaN stays NaN, and Inf stays Inf.
__device__ inline float scale_of(std::uint32_t bits) {
  const float largest = __uint_as_float(bits);
  const float amax = largest < 1e-4f ? 1e-4f : largest;
  const float quotient = amax * (1.0f / 448.0f);
  const float scale = fmaf(fmaf(quotient, 448.0f, -amax), -(1.0f / 448.0f), quotient);
  return isinf(amax) ? amax : scale;
}

/// y / scale, correctly rounded, in three instructions instead of the ten and more of a division,
/// which would take half of all the issue slots that the operator has at the speed of memory:
/// with inv = rn(1 / s),  t = y inv,  q = fma(fma(t, s, -y), -inv, t)  (Markstein 1990; see
/// common/exact_divisor.hpp for the signs). The scales are 2^-23 and above, so that inv is never
/// subnormal; where a remainder is, the quotient lies far below the smallest code. The test holds
/// it against __fdiv_rn for every 16-bit y. float32 takes the division itself: there are more y
/// than can be tried.
template <class T>
struct Quotient {
  static constexpr bool divides = std::is_same_v<T, float>;
  float scale, inverse, minus_inverse;

  __device__ explicit Quotient(float s)
      // For s = Inf the multiplications by 0 alone give what a division does: a zero of the sign of
      // y, or NaN for y = Inf.
      : scale(isinf(s) && !divides ? 1.0f : s), inverse(1.0f / s), minus_inverse(-inverse) {}

  __device__ float operator()(float y) const {
    if constexpr (divides) {
      return __fdiv_rn(y, scale);
    } else {
      const float quotient = y * inverse;
      return fmaf(fmaf(quotient, scale, -y), minus_inverse, quotient);
    }
  }
};

/// The codes of a vector, one byte an element: 8 bytes of the 16-bit types, 4 of float32.
template <class T>
__device__ void store_codes(float8_e4m3fn* row, int i, const Vector<T>& y,
                            const Quotient<T>& quotient) {
  float v[vector_width<T>];
  unpack(y, v);
#pragma unroll
  for (float& value : v) value = quotient(value);
  if constexpr (std::is_same_v<T, float>) {
    reinterpret_cast<std::uint32_t*>(row)[i] = pack_e4m3(v[0], v[1]) | pack_e4m3(v[2], v[3]) << 16;
  } else {
    reinterpret_cast<uint2*>(row)[i] =
        make_uint2(pack_e4m3(v[0], v[1]) | pack_e4m3(v[2], v[3]) << 16,
                   pack_e4m3(v[4], v[5]) | pack_e4m3(v[6], v[7]) << 16);
  }
}

}  // namespace opbook::gpu
