#pragma once

// RMSNorm, then RoPE on the last rd columns of each row, the book's section 13.
// 4mn + 3m + 3 m rd FLOPs on (2mn + n + m rd) e bytes fused; unfused, the normalised rows are
// written and read besides: (4mn + n + m rd) e.

#include <type_traits>

#include "ch13_norm_rope/rms_norm.hpp"
#include "common/fast.hpp"
#include "common/rotation.hpp"
#include "common/rows.hpp"

namespace opbook::ch13::cpu {

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

}  // namespace opbook::ch13::cpu
