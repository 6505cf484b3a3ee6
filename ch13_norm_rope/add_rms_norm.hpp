#pragma once

// A residual addition and the RMSNorm that follows it: s = x + r, rounded to the input dtype, and
// y = s * rsqrt(mean(s^2) + eps) * w. Both come out: s is the next residual.
// 5mn + 3m FLOPs on (4mn + n) e bytes fused; 10mn e bytes and more as seven kernels.

#include <type_traits>

#include "ch13_norm_rope/rms_norm.hpp"
#include "common/rows.hpp"

namespace opbook::ch13 {

/// What add_rms_norm asks of its arguments, wherever it runs. Throws ArgumentError.
template <class T>
void check_add_rms_norm(Rows<const T> x, Rows<const T> r, Row<const T> w, Rows<T> s, Rows<T> y,
                        const RmsNormOptions& options) {
  require_shape("r", r, x.rows(), x.cols);
  require_size("w", w, x.cols);
  const auto check_output = [&](const char* name, Rows<T> output) {
    require_shape(name, output, x.rows(), x.cols);
    require_distinct_rows(name, output);
    require_no_partial_overlap(name, output, "x", x);
    require_no_partial_overlap(name, output, "r", r);
    require_no_overlap(name, output, "w", one_row(w));
  };
  check_output("s", s);
  check_output("y", y);
  require_no_overlap("y", y, "s", s);
  require_options(options);
}

namespace cpu {

/// One kernel: reads x, r and w once, writes s and y once; y is exactly rms_norm of s. x, r, s, y:
/// [..., n], any strides between rows, any base; each output may be x or r, but not the other
/// output. w: [n]. Accumulates in float32. Backend is Fast, or Metered to count. Throws
/// ArgumentError for shapes that disagree, an output that partly overlaps an input or overlaps the
/// other output, and options as rms_norm does. m = 0 and n = 0 do nothing.
template <class Backend, class T>
void add_rms_norm(Backend& backend, Rows<const std::type_identity_t<T>> x,
                  Rows<const std::type_identity_t<T>> r, Row<const std::type_identity_t<T>> w,
                  Rows<std::type_identity_t<T>> s, Rows<T> y, const RmsNormOptions& options = {});

/// The same as seven kernels: the addition, then rms_norm's six on s. Errors as above, and for
/// intermediates of the wrong shape.
template <class Backend, class T>
void add_rms_norm_unfused(Backend& backend, Rows<const std::type_identity_t<T>> x,
                          Rows<const std::type_identity_t<T>> r,
                          Row<const std::type_identity_t<T>> w, Rows<std::type_identity_t<T>> s,
                          Rows<T> y, const RmsNormIntermediates<T>& intermediates,
                          const RmsNormOptions& options = {});

}  // namespace cpu

namespace gpu {

using opbook::gpu::Stream;

/// The same on a CUDA device: all memory is the device's, the work is queued on `stream`; see
/// gpu::rms_norm.
template <class T>
void add_rms_norm(Stream stream, Rows<const std::type_identity_t<T>> x,
                  Rows<const std::type_identity_t<T>> r, Row<const std::type_identity_t<T>> w,
                  Rows<std::type_identity_t<T>> s, Rows<T> y, const RmsNormOptions& options = {});
template <class T>
void add_rms_norm_unfused(Stream stream, Rows<const std::type_identity_t<T>> x,
                          Rows<const std::type_identity_t<T>> r,
                          Row<const std::type_identity_t<T>> w, Rows<std::type_identity_t<T>> s,
                          Rows<T> y, const RmsNormIntermediates<T>& intermediates,
                          const RmsNormOptions& options = {});

}  // namespace gpu
}  // namespace opbook::ch13
