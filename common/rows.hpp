#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace opbook {

/// `size` contiguous elements that somebody else owns.
template <class T>
struct Row {
  T* data = nullptr;
  std::int64_t size = 0;

  operator Row<const T>() const
    requires(!std::is_const_v<T>)
  {
    return {data, size};
  }
  Row slice(std::int64_t begin, std::int64_t count) const { return {data + begin, count}; }
};

/// A [..., cols] tensor that somebody else owns, seen as outer * inner rows of `cols` contiguous
/// elements. Two outer strides (in elements) reach what one cannot: q as a slice of a packed
/// [tokens, heads + 2 kv_heads, dh] tensor is {tokens, heads, dh, (heads + 2 kv_heads) * dh, dh}.
/// Stride 0 repeats a row and is legal for inputs.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t outer = 0;
  std::int64_t inner = 1;
  std::int64_t cols = 0;
  std::int64_t outer_stride = 0;
  std::int64_t inner_stride = 0;

  operator Rows<const T>() const
    requires(!std::is_const_v<T>)
  {
    return {data, outer, inner, cols, outer_stride, inner_stride};
  }
  std::int64_t rows() const { return outer * inner; }
  Row<T> row(std::int64_t i) const {
    return {data + (i / inner) * outer_stride + (i % inner) * inner_stride, cols};
  }
  /// The same without a division: row j of the inner ones, under outer row i.
  Row<T> row(std::int64_t i, std::int64_t j) const {
    return {data + i * outer_stride + j * inner_stride, cols};
  }
};

/// An [m, n] matrix whose rows lie `stride` elements apart.
template <class T>
Rows<T> strided_rows(T* data, std::int64_t m, std::int64_t n, std::int64_t stride) {
  return {data, m, 1, n, stride, 0};
}

/// An [m, n] matrix without gaps.
template <class T>
Rows<T> contiguous_rows(T* data, std::int64_t m, std::int64_t n) {
  return strided_rows(data, m, n, n);
}

/// A vector [m] seen as m rows of one, for kernels that make one number of each row.
template <class T>
Rows<T> one_a_row(Row<T> vector) {
  return contiguous_rows(vector.data, vector.size, 1);
}

/// A vector [m] seen as one row, for kernels that map it element by element.
template <class T>
Rows<T> one_row(Row<T> vector) {
  return contiguous_rows(vector.data, 1, vector.size);
}

/// A vector seen as rows of `piece` elements, for threads to share: the last may be shorter than
/// the view says, piece_of() cuts it.
template <class T>
Rows<T> in_pieces(Row<T> vector, std::int64_t piece) {
  return contiguous_rows(vector.data, (vector.size + piece - 1) / piece, piece);
}
template <class T>
Row<T> piece_of(Row<T> vector, std::int64_t piece, std::int64_t i) {
  return vector.slice(i * piece, std::min(piece, vector.size - i * piece));
}

}  // namespace opbook
