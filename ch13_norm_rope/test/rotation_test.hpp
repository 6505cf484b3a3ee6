#pragma once

// What the tests of the operators that rotate share.

#include <cstdint>
#include <vector>

#include "ch13_norm_rope/reference_rope.hpp"
#include "common/rope_table.hpp"
#include "common/rotation.hpp"
#include "operator_test.hpp"

namespace opbook::ch13 {

/// The tables of `rows` positions, theta 10000, as operators and references take them.
template <class T>
struct AngleTables {
  Array cos, sin;

  AngleTables(std::int64_t rows, std::int64_t rope_dim)
      : cos("cos", dtype_of<T>, {rows, rope_dim / 2}),
        sin("sin", dtype_of<T>, {rows, rope_dim / 2}) {
    fill_rope_table(cos, Wave::cosine);
    fill_rope_table(sin, Wave::sine);
  }

  RopeTables<T> view(Positions positions = {}) const {
    return {cos.rows<T>(), sin.rows<T>(), positions};
  }
  reference::Tables reference() const { return {cos, sin}; }
};

/// An int32 or int64 vector, as the positions of an operator.
template <class Index>
Positions as_positions(const std::vector<Index>& rows) {
  return Row<const Index>{rows.data(), static_cast<std::int64_t>(rows.size())};
}

/// The rows of `tables` that `rows` name, one after the other: tables that need no positions.
template <class T, class Index>
AngleTables<T> gathered(const AngleTables<T>& tables, const std::vector<Index>& rows) {
  const std::int64_t h = tables.cos.cols();
  AngleTables<T> result(static_cast<std::int64_t>(rows.size()), 2 * h);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(tables.cos.template data<T>() + rows[i] * h, h,
                result.cos.template data<T>() + static_cast<std::int64_t>(i) * h);
    std::copy_n(tables.sin.template data<T>() + rows[i] * h, h,
                result.sin.template data<T>() + static_cast<std::int64_t>(i) * h);
  }
  return result;
}

/// Whether an array still holds what it was born with.
inline bool untouched(const Array& array) {
  for (std::int64_t i = 0; i < array.bytes(); ++i) {
    if (array.raw()[i] != std::byte{0xFF}) return false;
  }
  return true;
}

}  // namespace opbook::ch13
