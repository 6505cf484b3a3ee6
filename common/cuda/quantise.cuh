#pragma once

// Quantisation to FP8 e4m3 on a device: the scale of what has a largest magnitude, and codes of
// exact quotients.

#include <cstdint>
#include <type_traits>

#include "common/cuda/reduce.cuh"

namespace opbook::gpu {

/// amax = max(max |y|, 1e-4), scale = amax / 448, correctly rounded. `bits` is the pattern of max
/// |y|; NaN stays NaN. Dividing by a constant takes three instructions: quotient by the reciprocal,
/// remainder, correction (Brisebarre, Muller and Raina 2004). The test tries every float32.
__device__ inline float scale_of(std::uint32_t bits) {
  constexpr float reciprocal = 1.0f / 448.0f;
  const float largest = __uint_as_float(bits);
  const float amax = largest < 1e-4f ? 1e-4f : largest;
  if (isinf(amax)) return amax;
  const float quotient = amax * reciprocal;
  return fmaf(fmaf(-quotient, 448.0f, amax), reciprocal, quotient);
}

/// rn(1 / s) for s from 2^-23 to 2^120: what the compiler makes of 1.0f / s, without its branch for
/// all other s. Inf gives 0, NaN NaN.
__device__ inline float reciprocal(float s) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(s));
  return isinf(s) ? 0.0f : fmaf(r, -fmaf(s, r, -1.0f), r);
}

/// y / scale for what shares a scale, at two or three instructions instead of the ten and more of a
/// division, which would take half of all the issue slots that the operator has at the speed of
/// memory. The scales are 2^-23 and above. Both ways are algorithms 1 and 2 of Brisebarre, Muller
/// and Raina, Accelerating correctly rounded floating-point division when the divisor is known in
/// advance (2004).
///
/// For y in float32: with inv = rn(1 / s), t = y inv, q = t + (y - t s) inv, always the correctly
/// rounded quotient (where a remainder is subnormal, q lies far below the smallest code). The signs
/// as written keep -0.
template <class T>
class Quotient {
 public:
  __device__ explicit Quotient(float s)
      // For s = Inf the multiplications by 0 alone give what a division does: a zero of the sign of
      // y, or NaN for y = Inf.
      : scale_(isinf(s) ? 1.0f : s), inverse_(reciprocal(s)), minus_inverse_(-inverse_) {}

  __device__ float operator()(float y) const {
    const float quotient = y * inverse_;
    return fmaf(fmaf(quotient, scale_, -y), minus_inverse_, quotient);
  }

  /// The one that another lane of the warp has. All lanes must ask.
  __device__ Quotient of_lane(int lane) const {
    Quotient other = *this;
    other.scale_ = __shfl_sync(0xFFFFFFFFu, scale_, lane);
    other.inverse_ = __shfl_sync(0xFFFFFFFFu, inverse_, lane);
    other.minus_inverse_ = -other.inverse_;
    return other;
  }

 private:
  float scale_, inverse_, minus_inverse_;
};

/// 1 / s as the sum of two float32: q = y inverse + y rest, in two instructions. The last bit of q
/// may be wrong, but the code that q rounds to is that of the true quotient:
///  - for y in a 16-bit type, up to any max |y| of it; the test tries them all;
///  - for y in float32 where serves_float32(s).
/// The inverse is not above 1 / s, so that the rest is not negative and y = -0 gives -0.
class TwoPartInverse {
 public:
  __device__ explicit TwoPartInverse(float s) {
    float guess;  // within one unit in the last place
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(guess) : "f"(s));
    const bool above = fmaf(-s, guess, 1.0f) < 0;
    inverse_ = __uint_as_float(__float_as_uint(guess) - (above ? 1u : 0u));
    rest_ = isinf(s) ? 0.0f : fmaf(-s, inverse_, 1.0f) * inverse_;
  }

  __device__ float operator()(float y) const { return fmaf(y, inverse_, y * rest_); }

  /// The one that another lane of the warp has. All lanes must ask.
  __device__ TwoPartInverse of_lane(int lane) const {
    TwoPartInverse other = *this;
    other.inverse_ = __shfl_sync(0xFFFFFFFFu, inverse_, lane);
    other.rest_ = __shfl_sync(0xFFFFFFFFu, rest_, lane);
    return other;
  }

  /// Of all 2^23 mantissas that s may have, three have a y for which the code would be wrong:
  /// boundaries between codes are few, and the test tries the y next to each under every s. The
  /// three (code_quotient_test.cpp) are among the sixteen that have all of these bits. Beyond 2^60
  /// the rest becomes subnormal in the end.
  __device__ static bool serves_float32(float s) {
    constexpr std::uint32_t all = 0x1FFFFCu;
    return s < 0x1p60f && (__float_as_uint(s) & all) != all;
  }

 private:
  float inverse_, rest_;
};

template <class T>
  requires(sizeof(T) == 2)
class Quotient<T> : public TwoPartInverse {
 public:
  using TwoPartInverse::TwoPartInverse;
};

/// The codes of a vector, one byte an element: 8 bytes of the 16-bit types, 4 of float32.
/// `quotient` divides by the scale, as Quotient does.
template <class T, class Divide>
__device__ auto codes_of(const Vector<T>& y, const Divide& quotient) {
  std::uint32_t codes[4];  // of each word
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 pair = unpack_word<T>(y.words[j]);
    codes[j] = pack_e4m3(quotient(pair.x), sizeof(T) == 4 ? 0.0f : quotient(pair.y));
  }
  if constexpr (std::is_same_v<T, float>) {
    return (codes[0] | codes[1] << 8) | (codes[2] | codes[3] << 8) << 16;
  } else {
    return make_uint2(codes[0] | codes[1] << 16, codes[2] | codes[3] << 16);
  }
}

/// Stores the codes of vector i of a row.
template <class T, class Divide>
__device__ void store_codes(float8_e4m3fn* row, int i, const Vector<T>& y, const Divide& quotient) {
  reinterpret_cast<decltype(codes_of(y, quotient))*>(row)[i] = codes_of(y, quotient);
}

/// The same if `wanted`, by a predicate: the compiler then mixes the work of several vectors, as it
/// cannot across the branches of an if.
template <class T, class Divide>
__device__ void store_codes_if(bool wanted, float8_e4m3fn* row, int i, const Vector<T>& y,
                               const Divide& quotient) {
  const auto codes = codes_of(y, quotient);
  auto* const to = reinterpret_cast<std::remove_const_t<decltype(codes)>*>(row) + i;
  if constexpr (std::is_same_v<T, float>) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p st.global.u32 [%0], %1; }" ::"l"(to),
                 "r"(codes), "r"(static_cast<unsigned>(wanted))
                 : "memory");
  } else {
    asm volatile(
        "{ .reg .pred p; setp.ne.u32 p, %3, 0; @p st.global.v2.u32 [%0], {%1, %2}; }" ::"l"(to),
        "r"(codes.x), "r"(codes.y), "r"(static_cast<unsigned>(wanted))
        : "memory");
  }
}

}  // namespace opbook::gpu
