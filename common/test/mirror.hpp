#pragma once

#include <cstddef>
#include <cstdint>

#include "common/array.hpp"
#include "common/cuda/device.hpp"
#include "common/rows.hpp"

namespace opbook {

/// An array's elements on the device, from `offset_elements` past a 256-byte boundary on; views of
/// them hold device pointers.
class Mirror {
 public:
  explicit Mirror(const Array& array, std::int64_t offset_elements = 0)
      : offset_(offset_elements * size_of(array.dtype())), memory_(array.bytes() + offset_ + 256) {
    gpu::copy_to_device(raw(), array.raw(), array.bytes());
  }
  std::byte* raw() const { return memory_.data() + offset_; }
  void fetch(Array& array) const { gpu::copy_to_host(array.raw(), raw(), array.bytes()); }

  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(raw());
  }
  /// Views of the shape of `array`.
  template <class T>
  Rows<T> rows(const Array& array) const {
    return contiguous_rows(data<T>(), array.row_count(), array.cols());
  }
  template <class T>
  Row<T> row(const Array& array) const {
    return {data<T>(), array.elements()};
  }

 private:
  std::int64_t offset_;
  gpu::DeviceMemory memory_;
};

}  // namespace opbook
