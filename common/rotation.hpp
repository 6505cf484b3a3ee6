#pragma once

// RoPE as an operator sees it: tables of cosines and sines, and which row of them turns a token. No
// SIMD in here: the CUDA compiler reads it too. The turning itself is in rotate.hpp.

#include <cstdint>
#include <string>
#include <variant>

#include "common/checks.hpp"
#include "common/error.hpp"
#include "common/rows.hpp"

namespace opbook {

/// For each token the row of the tables that turns it: row i for token i, unless told otherwise by
/// a vector of int32 or int64, one a token.
class Positions {
 public:
  Positions() = default;
  Positions(Row<const std::int32_t> rows) : rows_(rows) {}
  Positions(Row<const std::int64_t> rows) : rows_(rows) {}

  bool given() const { return !std::holds_alternative<std::monostate>(rows_); }

  template <class Primitives>
  std::int64_t table_row(Primitives& row, std::int64_t token) const {
    std::int64_t result = token;
    visit([&](auto rows) { result = row.index(rows, token); });
    return result;
  }

  /// f(rows) with the vector as it is typed, if there is one.
  template <class F>
  void visit(F f) const {
    if (const auto* rows = std::get_if<Row<const std::int32_t>>(&rows_)) f(*rows);
    if (const auto* rows = std::get_if<Row<const std::int64_t>>(&rows_)) f(*rows);
  }

 private:
  std::variant<std::monostate, Row<const std::int32_t>, Row<const std::int64_t>> rows_;
};

/// Cosines and sines, half as wide as what they turn: column p holds those of the angle that turns
/// columns p and p + rd / 2. The caller owns all of it.
template <class T>
struct RopeTables {
  Rows<const T> cos;         ///< [tokens, rd / 2], or [positions, rd / 2] where those are given
  Rows<const T> sin;         ///< the same shape
  Positions positions = {};  ///< [tokens]

  std::int64_t rope_dim() const { return 2 * cos.cols; }
};

/// The tables must turn `tokens` tokens. Tables without columns turn nothing, and may have any
/// number of rows. Throws ArgumentError.
template <class T>
void require_rope_tables(const RopeTables<T>& tables, std::int64_t tokens) {
  const Rows<const T> cos = tables.cos;
  if (cos.cols == 0 && tables.sin.cols == 0) return;
  require_shape("cos", cos, tables.positions.given() ? cos.rows() : tokens, cos.cols);
  require_shape("sin", tables.sin, cos.rows(), cos.cols);
  tables.positions.visit([&](auto rows) { require_size("positions", rows, tokens); });
}

/// Each position must be a row of the tables. Reads them: for memory of the host. Throws
/// ArgumentError.
template <class T>
void require_positions_within(const RopeTables<T>& tables) {
  if (tables.cos.cols == 0) return;
  const std::int64_t table_rows = tables.cos.rows();
  tables.positions.visit([&](auto rows) {
    for (std::int64_t i = 0; i < rows.size; ++i) {
      if (rows.data[i] >= 0 && rows.data[i] < table_rows) continue;
      throw ArgumentError("positions: got " + std::to_string(rows.data[i]) + " for token " +
                          std::to_string(i) + "; allowed: 0 up to, not including, " +
                          std::to_string(table_rows) + ", the rows of cos");
    }
  });
}

/// An output must share no byte with the tables and the positions. Throws ArgumentError.
template <class U, class T>
void require_apart_from_tables(const char* output, Rows<U> y, const RopeTables<T>& tables) {
  require_no_overlap(output, y, "cos", tables.cos);
  require_no_overlap(output, y, "sin", tables.sin);
  tables.positions.visit(
      [&](auto rows) { require_no_overlap(output, y, "positions", one_row(rows)); });
}

}  // namespace opbook
