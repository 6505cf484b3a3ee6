#pragma once

// LayerNorm, the book's section 13: y = (x - mean) * rsqrt(var + eps) * g + b, row by row; var is
// the mean of (x - mean)^2. 8mn + 4m FLOPs on (2mn + 2n) e bytes fused; 10mn e bytes and more as
// seven kernels.

#include <type_traits>

#include "common/fast.hpp"
#include "common/rows.hpp"

namespace opbook::ch13 {

/// What the unfused plan stores between its seven kernels, for x of [m, n].
template <class T>
struct LayerNormIntermediates {
  Rows<T> x2;         ///< [m, n]: x^2, rounded to T; in float16 Inf from |x| = 256
  Row<float> sum_x;   ///< [m]
  Row<float> sum_x2;  ///< [m]
  Row<float> mean;    ///< [m]
  Row<float> rstd;    ///< [m]: 1 / sqrt(E[x^2] - mean^2 + eps), which cancels where |mean| is large
  Rows<T> centered;   ///< [m, n]: x - mean, rounded to T
  Rows<T> scaled;     ///< [m, n]: centered * rstd, rounded to T
};

namespace cpu {

/// One kernel: reads x, g and b once, writes y once. The mean comes first and the variance from
/// what is left, so that nothing cancels: a row of one value has variance 0. x, y: [..., n], any
/// strides between rows, any base; y may be x. g, b: [n]. Accumulates in float32. eps = 0 turns a
/// row of one value into NaN, as the formula does. Backend is Fast, or Metered to count. Throws
/// ArgumentError for shapes that disagree, an output that partly overlaps an input, and eps below
/// 0 or not finite. m = 0 and n = 0 do nothing.
template <class Backend, class T>
void layer_norm(Backend& backend, Rows<const std::type_identity_t<T>> x,
                Row<const std::type_identity_t<T>> g, Row<const std::type_identity_t<T>> b,
                Rows<T> y, float eps = 1e-6f);

/// The same as seven kernels, each storing what the next ones read, the variance from the sums of x
/// and x^2. Errors as above, and for intermediates of the wrong shape.
template <class Backend, class T>
void layer_norm_unfused(Backend& backend, Rows<const std::type_identity_t<T>> x,
                        Row<const std::type_identity_t<T>> g, Row<const std::type_identity_t<T>> b,
                        Rows<T> y, const LayerNormIntermediates<T>& intermediates,
                        float eps = 1e-6f);

}  // namespace cpu
}  // namespace opbook::ch13
