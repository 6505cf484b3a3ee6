#pragma once

// Scale and add, the book's section 13: y = x * a + b, element by element.
// 2n FLOPs on 3n e bytes fused; 5n e bytes as two kernels.

#include <type_traits>

#include "common/checks.hpp"
#include "common/cuda/device.hpp"
#include "common/rows.hpp"

namespace opbook::ch13 {

/// What scale_add asks of its arguments, wherever it runs. Throws ArgumentError.
template <class T>
void check_scale_add(Row<const T> x, Row<const T> b, Row<T> y) {
  require_size("b", b, x.size);
  require_size("y", y, x.size);
  require_no_partial_overlap("y", one_row(y), "x", one_row(x));
  require_no_partial_overlap("y", one_row(y), "b", one_row(b));
}

namespace cpu {

/// One kernel: reads x and b once, writes y once, and rounds once. x, b, y: [n], any base; y may be
/// x or b. a: any float32; NaN and Inf go where the formula takes them. Backend is Fast, or Metered
/// to count. Throws ArgumentError for sizes that disagree and an output that partly overlaps an
/// input. n = 0 does nothing.
template <class Backend, class T>
void scale_add(Backend& backend, Row<const std::type_identity_t<T>> x, float a,
               Row<const std::type_identity_t<T>> b, Row<T> y);

/// The same as two kernels, with t = x * a, [n], rounded to T, stored in between. Errors as above,
/// and for t of another size.
template <class Backend, class T>
void scale_add_unfused(Backend& backend, Row<const std::type_identity_t<T>> x, float a,
                       Row<const std::type_identity_t<T>> b, Row<T> y,
                       Row<std::type_identity_t<T>> t);

}  // namespace cpu

namespace gpu {

using opbook::gpu::Stream;

/// The same on a CUDA device: all memory is the device's, the work is queued on `stream`; see
/// gpu::rms_norm.
template <class T>
void scale_add(Stream stream, Row<const std::type_identity_t<T>> x, float a,
               Row<const std::type_identity_t<T>> b, Row<T> y);
template <class T>
void scale_add_unfused(Stream stream, Row<const std::type_identity_t<T>> x, float a,
                       Row<const std::type_identity_t<T>> b, Row<T> y,
                       Row<std::type_identity_t<T>> t);

}  // namespace gpu
}  // namespace opbook::ch13
