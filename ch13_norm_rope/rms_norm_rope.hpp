#pragma once

// RMSNorm, then RoPE on the last rd columns of each row, the book's section 13.
// 4mn + 3m + 3 m rd FLOPs on (2mn + n + m rd) e bytes fused; unfused, the normalised rows are
// written and read besides: (4mn + n + m rd) e.

#include <cstdint>
#include <string>
#include <type_traits>

#include "ch13_norm_rope/rms_norm.hpp"
#include "common/rotation.hpp"
#include "common/rows.hpp"

namespace opbook::ch13 {

/// What an RMSNorm whose last columns turn asks of its inputs, wherever it runs. Throws
/// ArgumentError.
template <class T>
void check_norm_rope(Rows<const T> x, Row<const T> w, const RopeTables<T>& tables,
                     const RmsNormOptions& options) {
  require_size("w", w, x.cols);
  if (tables.rope_dim() > x.cols) {
    throw ArgumentError("cos: got " + std::to_string(tables.cos.cols) +
                        " columns; allowed: at most " + std::to_string(x.cols / 2) +
                        ", half of x's");
  }
  require_rope_tables(tables, x.rows());
  require_options(options);
}

/// And of an output of x's shape: it must be x exactly, or apart from every input. Throws
/// ArgumentError.
template <class T, class U>
void check_norm_rope_output(const char* name, Rows<U> y, Rows<const T> x, Row<const T> w,
                            const RopeTables<T>& tables) {
  require_shape(name, y, x.rows(), x.cols);
  require_distinct_rows(name, y);
  require_no_partial_overlap(name, y, "x", x);
  require_no_overlap(name, y, "w", one_row(w));
  require_apart_from_tables(name, y, tables);
}

namespace cpu {

/// One kernel. x, y: [..., n], any strides between rows, any base; y may be x. w: [n]. `tables`: a
/// row of x is a token; twice their width is rd, from 0 (nothing turns) to n. Accumulates in
/// float32 and rounds twice, as the unfused plan does: the normalised value, and the turned one.
/// Throws ArgumentError, before anything is written, for shapes that disagree, rd above n, an
/// output that partly overlaps an input, a position that the tables do not have, and options that
/// rms_norm refuses. m = 0 and n = 0 do nothing.
template <class Backend, class T>
void rms_norm_rope(Backend& backend, Rows<const std::type_identity_t<T>> x,
                   Row<const std::type_identity_t<T>> w,
                   const RopeTables<std::type_identity_t<T>>& tables, Rows<T> y,
                   const RmsNormOptions& options = {});

/// The same as two kernels, "norm" and "rope", the first storing `normed` [..., n] for the second.
template <class Backend, class T>
void rms_norm_rope_unfused(Backend& backend, Rows<const std::type_identity_t<T>> x,
                           Row<const std::type_identity_t<T>> w,
                           const RopeTables<std::type_identity_t<T>>& tables, Rows<T> y,
                           Rows<std::type_identity_t<T>> normed,
                           const RmsNormOptions& options = {});

}  // namespace cpu

namespace gpu {

using opbook::gpu::Stream;

/// The same on a CUDA device: all memory is the device's, the work is queued on `stream`; see
/// gpu::rms_norm and gpu::rope.
template <class T>
void rms_norm_rope(Stream stream, Rows<const std::type_identity_t<T>> x,
                   Row<const std::type_identity_t<T>> w,
                   const RopeTables<std::type_identity_t<T>>& tables, Rows<T> y,
                   const RmsNormOptions& options = {});
template <class T>
void rms_norm_rope_unfused(Stream stream, Rows<const std::type_identity_t<T>> x,
                           Row<const std::type_identity_t<T>> w,
                           const RopeTables<std::type_identity_t<T>>& tables, Rows<T> y,
                           Rows<std::type_identity_t<T>> normed,
                           const RmsNormOptions& options = {});

}  // namespace gpu
}  // namespace opbook::ch13
