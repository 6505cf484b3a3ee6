#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/cuda/device.hpp"
#include "common/dtype.hpp"
#include "common/problem.hpp"
#include "common/rows.hpp"

namespace opbook::gpu {

/// The tensors of one run on the current device, by name; views of them hold device pointers.
/// Memory is poisoned at birth (every byte 0xFF), and so are guard bands beside each tensor.
class DeviceTensors {
 public:
  /// Bases lie `offset_elements` off a 256-byte boundary. Throws ArgumentError where memory does
  /// not suffice, DeviceUnavailable without a device.
  explicit DeviceTensors(const std::vector<TensorSpec>& specs, std::int64_t offset_elements = 0);

  /// Copies the elements of every tensor, all of which have the specs' dtypes and shapes.
  void upload(const Tensors& tensors);
  void download(Tensors& tensors) const;

  /// The first tensor beside which something was written; empty where all guards are intact.
  std::string damaged() const;
  bool guards_intact() const { return damaged().empty(); }

  /// Views as of Tensors. Throw ArgumentError for a name that is not there and for another dtype
  /// than the tensor's.
  template <class T>
  Rows<T> rows(std::string_view name) {
    const Tensor& tensor = at(name, dtype_of<T>);
    return contiguous_rows(reinterpret_cast<T*>(tensor.first), tensor.row_count, tensor.cols);
  }
  template <class T>
  Row<T> row(std::string_view name) {
    const Tensor& tensor = at(name, dtype_of<T>);
    return {reinterpret_cast<T*>(tensor.first), tensor.row_count * tensor.cols};
  }
  std::byte* raw(std::string_view name) const { return at(name).first; }
  std::int64_t bytes(std::string_view name) const { return at(name).bytes(); }

 private:
  struct Tensor {
    DeviceMemory memory;  // guard, elements, guard
    std::byte* first = nullptr;
    Dtype dtype = Dtype::float32;
    std::int64_t row_count = 0;
    std::int64_t cols = 0;
    std::int64_t bytes() const { return row_count * cols * size_of(dtype); }
  };
  const Tensor& at(std::string_view name) const;
  const Tensor& at(std::string_view name, Dtype dtype) const;

  std::map<std::string, Tensor, std::less<>> tensors_;
};

}  // namespace opbook::gpu
