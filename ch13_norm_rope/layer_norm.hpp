#pragma once

// LayerNorm, the book's section 13: y = (x - mean) * rsqrt(var + eps) * g + b, row by row; var is
// the mean of (x - mean)^2. 8mn + 4m FLOPs on (2mn + 2n) e bytes fused; 10mn e bytes and more as
// seven kernels.

#include <cstdint>
#include <type_traits>

#include "common/checks.hpp"
#include "common/cuda/device.hpp"
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

/// What layer_norm asks of its arguments, wherever it runs. Throws ArgumentError.
template <class T>
void check_layer_norm(Rows<const T> x, Row<const T> g, Row<const T> b, Rows<T> y, float eps) {
  require_shape("y", y, x.rows(), x.cols);
  require_size("g", g, x.cols);
  require_size("b", b, x.cols);
  require_distinct_rows("y", y);
  require_no_partial_overlap("y", y, "x", x);
  require_no_overlap("y", y, "g", one_row(g));
  require_no_overlap("y", y, "b", one_row(b));
  require_eps(eps);
}
template <class T>
void check_intermediates(const LayerNormIntermediates<T>& intermediates, std::int64_t m,
                         std::int64_t n) {
  require_shape("x2", intermediates.x2, m, n);
  require_size("sum_x", intermediates.sum_x, m);
  require_size("sum_x2", intermediates.sum_x2, m);
  require_size("mean", intermediates.mean, m);
  require_size("rstd", intermediates.rstd, m);
  require_shape("centered", intermediates.centered, m, n);
  require_shape("scaled", intermediates.scaled, m, n);
}

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

namespace gpu {

using opbook::gpu::Stream;

/// The same on a CUDA device: all memory is the device's, the work is queued on `stream`; see
/// gpu::rms_norm.
template <class T>
void layer_norm(Stream stream, Rows<const std::type_identity_t<T>> x,
                Row<const std::type_identity_t<T>> g, Row<const std::type_identity_t<T>> b,
                Rows<T> y, float eps = 1e-6f);
template <class T>
void layer_norm_unfused(Stream stream, Rows<const std::type_identity_t<T>> x,
                        Row<const std::type_identity_t<T>> g, Row<const std::type_identity_t<T>> b,
                        Rows<T> y, const LayerNormIntermediates<T>& intermediates,
                        float eps = 1e-6f);

}  // namespace gpu
}  // namespace opbook::ch13
