#include "common/exercise_views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "common/error.hpp"
#include "common/replay.hpp"

namespace opbook {
namespace {

std::string element_name(const FloatTensor& tensor, std::int64_t i, std::int64_t j) {
  return tensor.rank == 1 ? fmt::format("{}({})", tensor.name, j)
                          : fmt::format("{}({}, {})", tensor.name, i, j);
}

bool is_poison(float value) {
  return std::bit_cast<std::uint32_t>(value) == 0xFFFFFFFFu;
}

}  // namespace

void MeteredAccess::require_index(std::int64_t i, std::int64_t j) const {
  const FloatTensor& tensor = *tensor_;
  if (i >= 0 && i < tensor.rows && j >= 0 && j < tensor.cols) return;
  const std::string columns =
      fmt::format("{} to {}", tensor.rank == 1 ? "elements 0" : "columns 0", tensor.cols - 1);
  const std::string rows =
      tensor.rank == 1 ? "" : fmt::format("rows 0 to {} and ", tensor.rows - 1);
  throw CheckFailed(fmt::format("{} does not exist: {} has {}{}", element_name(tensor, i, j),
                                tensor.name, rows, columns));
}

float MeteredAccess::read(const float* from) const {
  meter_->read(from, sizeof(float));
  return *from;
}

float MeteredAccess::read_back(const float* from) const {
  if (is_poison(*from)) {
    const std::int64_t at = from - tensor_->data;
    throw CheckFailed(fmt::format("{} is read before anything was written to it",
                                  element_name(*tensor_, at / tensor_->cols, at % tensor_->cols)));
  }
  return read(from);
}

void MeteredAccess::write(float* to, float value) const {
  meter_->write(to, sizeof(float));
  *to = value;
}

const FloatTensor& Operands::tensor(std::string_view name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const FloatTensor& tensor) { return tensor.name == name; });
  if (found == tensors.end()) {
    throw ArgumentError(fmt::format("tensor: got \"{}\"; allowed: the exercise's own", name));
  }
  return *found;
}

float Operands::scalar(std::string_view name) const {
  const auto found = scalars.find(name);
  if (found == scalars.end()) {
    throw ArgumentError(fmt::format("scalar: got \"{}\"; allowed: the exercise's own", name));
  }
  return found->second;
}

}  // namespace opbook
