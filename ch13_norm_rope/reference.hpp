#pragma once

// The chapter's operators in double precision: plain, slow, obviously right, sharing nothing with
// the implementations. Each function gives what an output should be and the derived tolerance.
//
// Notation of the derivations: u = 2^-24 is half an ulp of float32 (relative); g(n) is the bound of
// a float32 sum of n terms in 32 lanes (verify.hpp, float32_sum_error). First-order errors add; a
// square root halves them.

#include <string>

#include "ch13_norm_rope/rms_norm.hpp"
#include "common/array.hpp"
#include "common/verify.hpp"

namespace opbook::ch13::reference {

inline constexpr double u = 0x1p-24;

/// What one tensor should be.
struct Reference {
  Expected expected;
  double tolerance_ulp = 0.5;
  /// Where the tolerance is made of one: float32's error before the last rounding.
  double relative_error = 0;
};

/// y = x * rsqrt(mean(x^2) + eps) * w, over the last dimension of x.
Reference rms_norm(const Array& x, const Array& w, const RmsNormOptions& options);

/// y = x * a + b, element by element.
Reference scale_add(const Array& x, double a, const Array& b);

/// y = (x - mean) * rsqrt(var + eps) * g + b, over the last dimension of x.
Reference layer_norm(const Array& x, const Array& g, const Array& b, double eps);

// One kernel of an unfused plan each. All round once, to the dtype of what they store.

/// x^2, of x's shape.
Reference square(const Array& x);
/// Sum of each row.
Reference row_sum(const Array& x);
/// Mean of each row, of elements that are not negative.
Reference row_mean(const Array& x);
/// sum_x / n.
Reference mean_of_sum(const Array& sum_x, std::int64_t n);
/// 1 / sqrt(sum_x2 / n - (sum_x / n)^2 + eps).
Reference rstd_of_sums(const Array& sum_x, const Array& sum_x2, std::int64_t n, double eps);
/// x + c, element by element, in float32.
Reference add_scalar(const Array& x, double c);
/// 1 / sqrt(x).
Reference reciprocal_sqrt(const Array& x);
/// x * c.
Reference multiply_scalar(const Array& x, double c);
/// x + z, element by element.
Reference add(const Array& x, const Array& z);
/// x[i, :] - subtrahend[i].
Reference subtract_rows(const Array& x, const Array& subtrahend);
/// x[i, :] * factor[i].
Reference scale_rows(const Array& x, const Array& factor);
/// x * (offset + w), w repeated for each row.
Reference multiply_columns(const Array& x, const Array& w, int offset);
/// x * g + b, both repeated for each row.
Reference multiply_add_columns(const Array& x, const Array& g, const Array& b);

}  // namespace opbook::ch13::reference
