#pragma once

#include <cmath>

#include "common/simd.hpp"

namespace opbook {

/// Division of many numbers by one, in three instructions and to the bit: with inv = rn(1 / d),
///     t = y * inv,  q = t - (t * d - y) * inv,  both steps of q fused,
/// is y / d correctly rounded (Markstein, IBM J. Res. Dev. 34, 1990), as long as nothing
/// underflows. The processor's own division takes as long as five of its multiplications or more,
/// which would put quantisation's time above the memory's. The test tries every float16 and
/// bfloat16 y over thousands of divisors.
struct ExactDivisor {
  float divisor;
  float inverse;
  float minus_inverse;
  /// Whether divide() is exact for |y / d| up to 2^20: not for divisors so large or so small that
  /// the inverse or a remainder leaves the normal range, nor for Inf and NaN; and slower than a
  /// division where the processor has no fused multiply-add.
  bool usable;

  explicit ExactDivisor(float d)
      : divisor(d),
        inverse(1.0f / d),
        minus_inverse(-1.0f / d),
        usable(has_fused_multiply_add && d > 0x1p-60f && d < 0x1p60f) {}

  template <class V>
  V divide(V y) const {
    const V quotient = y * V(inverse);
    const V excess = fma(quotient, V(divisor), -y);
    // Not fma(-excess, inverse, quotient): a compiler may pull that minus into the line above,
    // where it turns the excess of y = -0 from -0 into +0, and the quotient with it.
    return fma(excess, V(minus_inverse), quotient);
  }
};

}  // namespace opbook
