#pragma once

// RMSNorm, the book's section 13: y = x * rsqrt(mean(x^2) + eps) * w, row by row.
// 4mn + 3m FLOPs on (2mn + n) e bytes fused; 7mn e bytes and more as six kernels.

#include <cstdint>
#include <string>
#include <type_traits>

#include "ch13_norm_rope/arguments.hpp"
#include "common/checks.hpp"
#include "common/cuda/device.hpp"
#include "common/rows.hpp"

namespace opbook::ch13 {

struct RmsNormOptions {
  float eps = 1e-6f;  ///< added to mean(x^2); 0 turns a row of zeros into NaN, as the formula does
  Rounding rounding = Rounding::once;
  int weight_offset = 0;  ///< 0: y = xhat * w; 1: y = xhat * (1 + w), formed in float32 (Gemma)
};

/// What the unfused plan stores between its six kernels, for x of [m, n].
template <class T>
struct RmsNormIntermediates {
  Rows<T> x2;           ///< [m, n]: x^2, rounded to T; in float16 Inf from |x| = 256
  Row<float> mean;      ///< [m]
  Row<float> mean_eps;  ///< [m]
  Row<float> rstd;      ///< [m]
  Rows<T> scaled;       ///< [m, n]: x * rstd, rounded to T
};

/// Throws ArgumentError for eps below 0 or not finite, and a weight_offset other than 0 and 1.
inline void require_options(const RmsNormOptions& options) {
  require_eps(options.eps);
  if (options.weight_offset != 0 && options.weight_offset != 1) {
    throw ArgumentError("weight_offset: got " + std::to_string(options.weight_offset) +
                        "; allowed: 0, 1");
  }
}

/// What rms_norm asks of its arguments, wherever it runs. Throws ArgumentError.
template <class T>
void check_rms_norm(Rows<const T> x, Row<const T> w, Rows<T> y, const RmsNormOptions& options) {
  require_shape("y", y, x.rows(), x.cols);
  require_size("w", w, x.cols);
  require_distinct_rows("y", y);
  require_no_partial_overlap("y", y, "x", x);
  require_no_overlap("y", y, "w", one_row(w));
  require_options(options);
}
template <class T>
void check_intermediates(const RmsNormIntermediates<T>& intermediates, std::int64_t m,
                         std::int64_t n) {
  require_shape("x2", intermediates.x2, m, n);
  require_size("mean", intermediates.mean, m);
  require_size("mean_eps", intermediates.mean_eps, m);
  require_size("rstd", intermediates.rstd, m);
  require_shape("scaled", intermediates.scaled, m, n);
}

namespace cpu {

/// One kernel: reads x and w once, writes y once. x, y: [..., n], any strides between rows, any
/// base; y may be x. w: [n]. Accumulates in float32. Backend is Fast, or Metered to count.
/// Throws ArgumentError for shapes that disagree, an output that partly overlaps an input, eps
/// below 0 or not finite, and a weight_offset other than 0 and 1. m = 0 and n = 0 do nothing.
template <class Backend, class T>
void rms_norm(Backend& backend, Rows<const std::type_identity_t<T>> x,
              Row<const std::type_identity_t<T>> w, Rows<T> y, const RmsNormOptions& options = {});

/// The same as six kernels, each storing what the next one reads. `rounding` has no effect: the
/// intermediates are rounded because they are stored. Errors as above, and for intermediates of
/// the wrong shape.
template <class Backend, class T>
void rms_norm_unfused(Backend& backend, Rows<const std::type_identity_t<T>> x,
                      Row<const std::type_identity_t<T>> w, Rows<T> y,
                      const RmsNormIntermediates<T>& intermediates,
                      const RmsNormOptions& options = {});

}  // namespace cpu

namespace gpu {

using opbook::gpu::Stream;

/// The same on a CUDA device: all memory is the device's, the work is queued on `stream`. Nothing
/// is allocated; a row's bits depend on nothing but the row. Throws as above, and CudaError where
/// the launch fails.
template <class T>
void rms_norm(Stream stream, Rows<const std::type_identity_t<T>> x,
              Row<const std::type_identity_t<T>> w, Rows<T> y, const RmsNormOptions& options = {});
template <class T>
void rms_norm_unfused(Stream stream, Rows<const std::type_identity_t<T>> x,
                      Row<const std::type_identity_t<T>> w, Rows<T> y,
                      const RmsNormIntermediates<T>& intermediates,
                      const RmsNormOptions& options = {});

}  // namespace gpu
}  // namespace opbook::ch13
