#pragma once

// What every operator asks of its tensors before it touches them. All throw ArgumentError.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "common/error.hpp"
#include "common/rows.hpp"

namespace opbook {

/// `argument` must have `size` elements.
template <class T>
void require_size(const char* argument, Row<T> row, std::int64_t size) {
  if (row.size != size) {
    throw ArgumentError(std::string(argument) + ": got " + std::to_string(row.size) +
                        " elements; allowed: " + std::to_string(size));
  }
}

/// eps, added to a mean square or a variance, must be finite and not negative.
inline void require_eps(float eps) {
  if (!(eps >= 0 && std::isfinite(eps))) {
    throw ArgumentError("eps: got " + std::to_string(eps) +
                        "; allowed: a finite number, 0 or above");
  }
}

/// `argument` must be [m, n].
template <class T>
void require_shape(const char* argument, Rows<T> rows, std::int64_t m, std::int64_t n) {
  if (rows.rows() != m || rows.cols != n) {
    throw ArgumentError(std::string(argument) + ": got [" + std::to_string(rows.rows()) + ", " +
                        std::to_string(rows.cols) + "]; allowed: [" + std::to_string(m) + ", " +
                        std::to_string(n) + "]");
  }
}

/// First and one-past-last byte that the rows reach.
template <class T>
std::pair<const std::byte*, const std::byte*> extent(Rows<T> rows) {
  const auto* first = reinterpret_cast<const std::byte*>(rows.data);
  if (rows.rows() == 0 || rows.cols == 0) return {first, first};
  const std::int64_t last =
      (rows.outer - 1) * rows.outer_stride + (rows.inner - 1) * rows.inner_stride + rows.cols;
  return {first, first + last * static_cast<std::int64_t>(sizeof(T))};
}

/// The rows of an output must not run into each other, nor lie backwards.
template <class T>
void require_distinct_rows(const char* argument, Rows<T> rows) {
  if (rows.rows() == 0 || rows.cols == 0) return;
  const bool inner_apart = rows.inner <= 1 || rows.inner_stride >= rows.cols;
  const std::int64_t span =
      rows.inner <= 1 ? rows.cols : (rows.inner - 1) * rows.inner_stride + rows.cols;
  const bool outer_apart = rows.outer <= 1 || rows.outer_stride >= span;
  if (!inner_apart || !outer_apart) {
    throw ArgumentError(std::string(argument) + ": got strides " +
                        std::to_string(rows.outer_stride) + " and " +
                        std::to_string(rows.inner_stride) + " for rows of " +
                        std::to_string(rows.cols) + "; allowed: rows that do not overlap");
  }
}

/// An output may be an input in place (the same elements, row by row) or lie apart from it;
/// anything in between would read what was already overwritten. Interleaved slices of one buffer (q
/// and k of a packed tensor) share an extent without sharing an element: they pass.
template <class T, class U>
void require_no_partial_overlap(const char* output, Rows<T> y, const char* input, Rows<U> x) {
  const auto [y_first, y_last] = extent(y);
  const auto [x_first, x_last] = extent(x);
  if (y_last <= x_first || x_last <= y_first) return;
  if (sizeof(T) == sizeof(U)) {
    const bool same_strides = (y.outer <= 1 || y.outer_stride == x.outer_stride) &&
                              (y.inner <= 1 || y.inner_stride == x.inner_stride) &&
                              y.outer == x.outer && y.inner == x.inner;
    if (y_first == x_first && same_strides) return;
    if (same_strides && x.cols == y.cols) {
      // Equal steps: the row that starts first must end before the other's begins, in every row.
      const std::int64_t apart = (y_first > x_first ? y_first - x_first : x_first - y_first) /
                                 static_cast<std::int64_t>(sizeof(T));
      const std::int64_t step = y.inner > 1 ? y.inner_stride : y.outer_stride;
      const std::int64_t within = step > 0 ? apart % step : apart;
      if (within >= y.cols && step - within >= y.cols) return;
    }
  }
  throw ArgumentError(std::string(output) + ": overlaps " + input +
                      "; allowed: exactly the same elements, or none of them");
}

/// The output and the input must share no byte of their extents.
template <class T, class U>
void require_no_overlap(const char* output, Rows<T> y, const char* input, Rows<U> x) {
  const auto [y_first, y_last] = extent(y);
  const auto [x_first, x_last] = extent(x);
  if (y_last <= x_first || x_last <= y_first) return;
  throw ArgumentError(std::string(output) + ": overlaps " + input + "; allowed: memory of its own");
}

}  // namespace opbook
