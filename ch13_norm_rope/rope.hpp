#pragma once

// RoPE, the book's section 13: NeoX half rotation of every head by its token's angles.
//   lo' = lo c - hi s,  hi' = hi c + lo s,  lo and hi being columns p and p + rd / 2.
// 3v FLOPs on (2v + tokens rd) e bytes fused, v = tokens heads rd; 8v e bytes and more as four
// kernels.

#include <type_traits>

#include "common/fast.hpp"
#include "common/rotation.hpp"
#include "common/rows.hpp"

namespace opbook::ch13 {

/// What the unfused plan stores between its four kernels, each of x's shape.
template <class T>
struct RopeIntermediates {
  Rows<T> rot;  ///< (-hi, lo)
  Rows<T> t;    ///< x * cos, rounded to T
  Rows<T> u;    ///< rot * sin, rounded to T
};

namespace cpu {

/// One kernel. x, y: [tokens, heads, rd], tokens being the outer rows and heads the inner ones, any
/// strides, any base; y may be x. A token's angles turn all its heads. Computes in float32 and
/// rounds once. Backend is Fast, or Metered to count.
/// Throws ArgumentError, before anything is written, for an odd rd, shapes that disagree, an output
/// that partly overlaps an input, and a position that the tables do not have. No tokens, no heads
/// and rd = 0 do nothing.
template <class Backend, class T>
void rope(Backend& backend, Rows<const std::type_identity_t<T>> x,
          const RopeTables<std::type_identity_t<T>>& tables, Rows<T> y);

/// The same as four kernels, each storing what the next ones read. Errors as above, and for
/// intermediates of the wrong shape.
template <class Backend, class T>
void rope_unfused(Backend& backend, Rows<const std::type_identity_t<T>> x,
                  const RopeTables<std::type_identity_t<T>>& tables, Rows<T> y,
                  const RopeIntermediates<T>& intermediates);

}  // namespace cpu
}  // namespace opbook::ch13
