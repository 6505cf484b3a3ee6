#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/dtype.hpp"
#include "common/rows.hpp"

namespace opbook {

/// A dense row-major tensor that owns its memory: a name, a dtype, a shape. Memory is poisoned at
/// birth (every byte 0xFF: a NaN in each float format, -1 in the integers) and stands between two
/// guard bands, so that an element never written and a write out of bounds both show.
class Array {
 public:
  Array() = default;
  /// The first element lies `offset_elements` elements beyond a 64-byte boundary: 0 is the aligned
  /// case, anything else tests an operator on an unaligned base. Throws ArgumentError where a size
  /// is negative or the bytes pass int64.
  Array(std::string name, Dtype dtype, std::vector<std::int64_t> shape,
        std::int64_t offset_elements = 0);

  const std::string& name() const { return name_; }
  Dtype dtype() const { return dtype_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t elements() const { return memory_ ? elements_ : 0; }
  std::int64_t bytes() const { return elements() * size_of(dtype_); }

  /// Typed access; throws ArgumentError where T is not the array's dtype.
  template <class T>
  T* data() {
    require(dtype_of<T>);
    return reinterpret_cast<T*>(raw());
  }
  template <class T>
  const T* data() const {
    require(dtype_of<T>);
    return reinterpret_cast<const T*>(raw());
  }
  std::byte* raw() { return first_; }
  const std::byte* raw() const { return first_; }

  /// All elements as one row; or the last dimension as columns and the product of the others as
  /// rows (a rank-0 array is 1 x 1).
  template <class T>
  Row<T> row() {
    return {data<T>(), elements()};
  }
  template <class T>
  Row<const T> row() const {
    return {data<T>(), elements()};
  }
  template <class T>
  Rows<T> rows() {
    return contiguous_rows(data<T>(), row_count(), cols());
  }
  template <class T>
  Rows<const T> rows() const {
    return contiguous_rows(data<T>(), row_count(), cols());
  }
  std::int64_t cols() const { return shape_.empty() ? 1 : shape_.back(); }
  std::int64_t row_count() const;  ///< product of the leading dimensions, also where cols() is 0

  double value(std::int64_t i) const;  ///< element i (row-major), exact in double

  void poison();               ///< fills the elements, not the guards, with 0xFF
  bool guards_intact() const;  ///< false once anything wrote next to the array

 private:
  void require(Dtype dtype) const;

  std::string name_;
  Dtype dtype_ = Dtype::float32;
  std::vector<std::int64_t> shape_;
  std::int64_t elements_ = 0;  // their product
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;  // guard, elements, guard; moves, never copies
  std::byte* first_ = nullptr;
};

}  // namespace opbook
