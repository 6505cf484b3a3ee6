#pragma once

// What rms_norm_rope and rms_norm_rope_quant share: their inputs with the checks, the kernels
// "norm" and "rope" of their unfused plans, and the rotation of a row's last columns.

#include <cstdint>

#include "ch13_norm_rope/rms_norm_rope.hpp"
#include "ch13_norm_rope/rms_norm_row.hpp"
#include "common/rotate.hpp"
#include "common/rotation.hpp"
#include "common/rows.hpp"

namespace opbook::ch13::cpu {

/// The inputs of an RMSNorm whose last columns turn; a row of x is a token.
template <class T>
struct NormRope {
  Rows<const T> x;  ///< [..., n]
  Row<const T> w;   ///< [n]
  RopeTables<T> tables;
  RmsNormOptions options;

  /// Columns that turn, the last ones, and those before them.
  std::int64_t turned() const { return tables.rope_dim(); }
  std::int64_t kept() const { return x.cols - turned(); }

  /// Throws ArgumentError for inputs that do not go together.
  void check() const {
    check_norm_rope(x, w, tables, options);
    require_positions_within(tables);
  }

  /// The last columns of a row: those that turn.
  template <class AnyRow>
  AnyRow tail_of(AnyRow row) const {
    return row.slice(kept(), turned());
  }

  /// to = from, the last columns of row i, turned by its angles; `to` may be `from`.
  template <class Primitives, class Out>
  void rotate_tail(Primitives& row, std::int64_t i, Out to, Row<const T> from) const {
    if (turned() == 0) return;
    const std::int64_t at = tables.positions.table_row(row, i);
    rotate(row, to, from, tables.cos.row(at), tables.sin.row(at));
  }

  /// normed = rms_norm(x, w).
  template <class Backend>
  void norm_kernel(Backend& backend, Rows<T> normed) const {
    backend.kernel("norm", x, normed, [in = *this, normed](auto& row, std::int64_t i) {
      rms_norm_row<T>(row, normed.row(i), in.x.row(i), in.w, in.options);
    });
  }

  /// y = normed with its last columns turned; all the others pass through.
  template <class Backend>
  void rope_kernel(Backend& backend, Rows<const T> normed, Rows<T> y) const {
    backend.kernel("rope", normed, y, [in = *this, normed, y](auto& row, std::int64_t i) {
      const auto copy = [](auto v) { return v; };
      row.map(y.row(i).slice(0, in.kept()), copy, normed.row(i).slice(0, in.kept()));
      in.rotate_tail(row, i, in.tail_of(y.row(i)), in.tail_of(normed.row(i)));
    });
  }
};

}  // namespace opbook::ch13::cpu
