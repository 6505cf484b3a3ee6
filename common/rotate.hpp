#pragma once

#include "common/fast.hpp"
#include "common/rows.hpp"

namespace opbook {

/// NeoX rotation of one row, 3 operations an element: y[p] = x[p] c - x[p + h] s and y[p + h] =
/// x[p + h] c + x[p] s, for p below h = y.size / 2; each rounded once. y may be x.
template <class Primitives, class Out, class T, class Table>
void rotate(Primitives& row, Out y, Row<T> x, Row<Table> cos, Row<Table> sin) {
  const auto turn = [](auto low, auto high, auto c, auto s) {
    return LowHigh{low * c - high * s, high * c + low * s};
  };
  row.map_pairs(y, turn, x, cos, sin);
}

}  // namespace opbook
