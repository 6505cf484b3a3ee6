#pragma once

// RoPE, the book's section 13: NeoX half rotation of every head by its token's angles.
//   lo' = lo c - hi s,  hi' = hi c + lo s,  lo and hi being columns p and p + rd / 2.
// 3v FLOPs on (2v + tokens rd) e bytes fused, v = tokens heads rd; 8v e bytes and more as four
// kernels.

#include <string>
#include <type_traits>

#include "common/checks.hpp"
#include "common/cuda/device.hpp"
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

/// `rows` must be of x's shape, [tokens, heads, rd]. Throws ArgumentError.
template <class T, class U>
void require_heads(const char* argument, Rows<U> rows, Rows<const T> x) {
  const auto text = [](auto of) {
    return '[' + std::to_string(of.outer) + ", " + std::to_string(of.inner) + ", " +
           std::to_string(of.cols) + ']';
  };
  if (rows.outer != x.outer || rows.inner != x.inner || rows.cols != x.cols) {
    throw ArgumentError(std::string(argument) + ": got " + text(rows) + "; allowed: " + text(x));
  }
}

/// What rope asks of its arguments, wherever it runs. Throws ArgumentError.
template <class T>
void check_rope(Rows<const T> x, const RopeTables<T>& tables, Rows<T> y) {
  if (x.cols % 2 != 0) {
    throw ArgumentError("x: got " + std::to_string(x.cols) + " columns; allowed: an even number");
  }
  require_heads("y", y, x);
  require_rope_tables(tables, x.outer);
  require_shape("cos", tables.cos, tables.cos.rows(), x.cols / 2);
  require_distinct_rows("y", y);
  require_no_partial_overlap("y", y, "x", x);
  require_apart_from_tables("y", y, tables);
}

template <class T>
void check_intermediates(const RopeIntermediates<T>& intermediates, Rows<const T> x) {
  require_heads("rot", intermediates.rot, x);
  require_heads("t", intermediates.t, x);
  require_heads("u", intermediates.u, x);
}

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

namespace gpu {

using opbook::gpu::Stream;

/// The same on a CUDA device: all memory is the device's, the work is queued on `stream`; see
/// gpu::rms_norm. A position that the tables do not have makes NaN of what it should turn;
/// common/cuda/positions.hpp refuses it beforehand.
template <class T>
void rope(Stream stream, Rows<const std::type_identity_t<T>> x,
          const RopeTables<std::type_identity_t<T>>& tables, Rows<T> y);
template <class T>
void rope_unfused(Stream stream, Rows<const std::type_identity_t<T>> x,
                  const RopeTables<std::type_identity_t<T>>& tables, Rows<T> y,
                  const RopeIntermediates<T>& intermediates);

}  // namespace gpu
}  // namespace opbook::ch13
