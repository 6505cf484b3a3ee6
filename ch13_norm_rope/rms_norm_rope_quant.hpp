#pragma once

// RMSNorm, then RoPE on the last rd columns, then FP8 e4m3 with one scale a row or a group of
// columns, the book's section 13:
//   amax = max(max |y|, 1e-4),  scale = amax / 448,  q = e4m3(y / scale).
// 7mn + 3 m rd + 3m FLOPs and 2 a scale. Fused, (mn + n + m rd) e bytes are read, mn and 4 a scale
// written.

#include <cstdint>
#include <string>
#include <type_traits>

#include "ch13_norm_rope/rms_norm_rope.hpp"
#include "common/rotation.hpp"
#include "common/rows.hpp"

namespace opbook::ch13 {

struct RmsNormRopeQuantOptions {
  RmsNormOptions norm = {};
  std::int64_t group_size = 0;  ///< columns that share a scale, a divisor of n; 0: the whole row
};

/// What comes out, for x of [m, n].
template <class T>
struct Quantised {
  Rows<float8_e4m3fn> q;  ///< [m, n]
  Rows<float> scale;      ///< [m, 1], or [m, n / group_size]; float32
  Rows<T> y = {};         ///< [m, n]: what was quantised; left empty where it is not wanted
};

/// What rms_norm_rope_quant asks of its arguments, wherever it runs. Throws ArgumentError.
template <class T>
void check_norm_rope_quant(Rows<const T> x, Row<const T> w, const RopeTables<T>& tables,
                           const Quantised<T>& result, const RmsNormRopeQuantOptions& options) {
  check_norm_rope(x, w, tables, options.norm);
  const std::int64_t n = x.cols, group_size = options.group_size;
  if (group_size < 0 || (group_size > 0 && n % group_size != 0)) {
    throw ArgumentError("group_size: got " + std::to_string(group_size) +
                        "; allowed: a divisor of n = " + std::to_string(n) +
                        ", or 0 for the whole row");
  }
  check_norm_rope_output("q", result.q, x, w, tables);
  require_shape("scale", result.scale, x.rows(), group_size > 0 ? n / group_size : 1);
  require_distinct_rows("scale", result.scale);
  require_no_overlap("scale", result.scale, "x", x);
  require_no_overlap("scale", result.scale, "w", one_row(w));
  require_apart_from_tables("scale", result.scale, tables);
  require_no_overlap("scale", result.scale, "q", result.q);
  if (result.y.data == nullptr) return;
  check_norm_rope_output("y", result.y, x, w, tables);
  require_no_overlap("q", result.q, "y", result.y);
  require_no_overlap("scale", result.scale, "y", result.y);
}

namespace cpu {

/// One kernel. x: [..., n], any strides between rows, any base; w: [n]; `tables` as for
/// rms_norm_rope, whose y this quantises; that y may be x. A NaN in a row makes its scales NaN, and
/// with them its codes 0x7F; a group of zeros gets the scale 1e-4 / 448.
/// Throws ArgumentError, before anything is written, for whatever rms_norm_rope refuses, a
/// group_size that does not divide n, and outputs that overlap. m = 0 and n = 0 do nothing.
template <class Backend, class T>
void rms_norm_rope_quant(Backend& backend, Rows<const std::type_identity_t<T>> x,
                         Row<const std::type_identity_t<T>> w,
                         const RopeTables<std::type_identity_t<T>>& tables,
                         const Quantised<T>& result, const RmsNormRopeQuantOptions& options = {});

/// The same as three kernels, "norm", "rope" and "quant". The first two store `normed` and
/// result.y, which is wanted here: each [m, n].
template <class Backend, class T>
void rms_norm_rope_quant_unfused(Backend& backend, Rows<const std::type_identity_t<T>> x,
                                 Row<const std::type_identity_t<T>> w,
                                 const RopeTables<std::type_identity_t<T>>& tables,
                                 const Quantised<T>& result, Rows<std::type_identity_t<T>> normed,
                                 const RmsNormRopeQuantOptions& options = {});

}  // namespace cpu

namespace gpu {

using opbook::gpu::Stream;

/// The same on a CUDA device: all memory is the device's, the work is queued on `stream`; see
/// gpu::rms_norm and gpu::rope.
template <class T>
void rms_norm_rope_quant(Stream stream, Rows<const std::type_identity_t<T>> x,
                         Row<const std::type_identity_t<T>> w,
                         const RopeTables<std::type_identity_t<T>>& tables,
                         const Quantised<T>& result, const RmsNormRopeQuantOptions& options = {});
template <class T>
void rms_norm_rope_quant_unfused(Stream stream, Rows<const std::type_identity_t<T>> x,
                                 Row<const std::type_identity_t<T>> w,
                                 const RopeTables<std::type_identity_t<T>>& tables,
                                 const Quantised<T>& result, Rows<std::type_identity_t<T>> normed,
                                 const RmsNormRopeQuantOptions& options = {});

}  // namespace gpu
}  // namespace opbook::ch13
