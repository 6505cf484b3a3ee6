#include "common/cuda/device_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/checked.hpp"
#include "common/error.hpp"

namespace opbook::gpu {
namespace {

constexpr std::int64_t guard_bytes = 4096;
constexpr std::uint8_t poison = 0xFF;

bool poisoned(const std::byte* device, std::int64_t bytes) {
  std::vector<std::byte> host(static_cast<std::size_t>(bytes));
  copy_to_host(host.data(), device, bytes);
  return std::all_of(host.begin(), host.end(),
                     [](std::byte byte) { return byte == std::byte{poison}; });
}

}  // namespace

DeviceTensors::DeviceTensors(const std::vector<TensorSpec>& specs, std::int64_t offset_elements) {
  for (const TensorSpec& spec : specs) {
    Tensor tensor;
    tensor.dtype = spec.dtype;
    tensor.cols = spec.shape.empty() ? 1 : spec.shape.back();
    tensor.row_count = 1;
    for (std::size_t i = 0; i + 1 < spec.shape.size(); ++i) {
      tensor.row_count = checked_mul({tensor.row_count, spec.shape[i]});
    }
    const std::int64_t elements = checked_mul({tensor.row_count, tensor.cols});
    const std::int64_t size = size_of(spec.dtype);
    const std::int64_t front = checked_add({guard_bytes, checked_mul({offset_elements, size})});
    tensor.memory = DeviceMemory(checked_add({front, checked_mul({elements, size}), guard_bytes}));
    tensor.first = tensor.memory.data() + front;
    fill_on_device(nullptr, tensor.memory.data(), poison, tensor.memory.bytes());
    tensors_.emplace(spec.name, std::move(tensor));
  }
  synchronise();
}

void DeviceTensors::upload(const Tensors& tensors) {
  for (const auto& [name, tensor] : tensors_) {
    copy_to_device(tensor.first, tensors.at(name).raw(), tensor.bytes());
  }
}

void DeviceTensors::download(Tensors& tensors) const {
  for (const auto& [name, tensor] : tensors_) {
    copy_to_host(tensors.at(name).raw(), tensor.first, tensor.bytes());
  }
}

std::string DeviceTensors::damaged() const {
  for (const auto& [name, tensor] : tensors_) {
    const std::byte* const begin = tensor.memory.data();
    const std::byte* const last = tensor.first + tensor.bytes();
    if (!poisoned(begin, tensor.first - begin) || !poisoned(last, guard_bytes)) return name;
  }
  return "";
}

const DeviceTensors::Tensor& DeviceTensors::at(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw ArgumentError(fmt::format("tensor: got \"{}\"; allowed: the operator's own", name));
  }
  return found->second;
}

const DeviceTensors::Tensor& DeviceTensors::at(std::string_view name, Dtype dtype) const {
  const Tensor& tensor = at(name);
  if (tensor.dtype != dtype) {
    throw ArgumentError(fmt::format("{}: asked for {} elements of a tensor of {}; allowed: {}",
                                    name, name_of(dtype), name_of(tensor.dtype),
                                    name_of(tensor.dtype)));
  }
  return tensor;
}

}  // namespace opbook::gpu
