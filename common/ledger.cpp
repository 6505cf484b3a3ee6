#include "common/ledger.hpp"

#include <nlohmann/json.hpp>

#include "common/checked.hpp"

namespace opbook {
namespace {

/// Sum of `figure` over `parts`, checked.
template <class Parts, class Figure>
std::int64_t total(const Parts& parts, Figure figure) {
  std::int64_t sum = 0;
  for (const auto& part : parts) sum = checked_add({sum, figure(part)});
  return sum;
}

std::int64_t bytes_of(const std::vector<Tensor>& tensors) {
  return total(tensors, [](const Tensor& tensor) { return tensor.bytes(); });
}

}  // namespace

std::int64_t Tensor::bytes() const {
  return checked_mul({elements, size_of(dtype)});
}

std::int64_t Kernel::read_bytes() const {
  return bytes_of(reads);
}

std::int64_t Kernel::write_bytes() const {
  return bytes_of(writes);
}

std::int64_t Kernel::moved_bytes() const {
  return checked_add({read_bytes(), write_bytes()});
}

std::int64_t Plan::read_bytes() const {
  return total(kernels, [](const Kernel& kernel) { return kernel.read_bytes(); });
}

std::int64_t Plan::write_bytes() const {
  return total(kernels, [](const Kernel& kernel) { return kernel.write_bytes(); });
}

std::int64_t Plan::moved_bytes() const {
  return checked_add({read_bytes(), write_bytes()});
}

std::int64_t Plan::flops() const {
  return total(kernels, [](const Kernel& kernel) { return kernel.flops; });
}

double Plan::ai() const {
  return static_cast<double>(flops()) / static_cast<double>(moved_bytes());
}

double Case::bytes_ratio() const {
  return static_cast<double>(unfused.moved_bytes()) / static_cast<double>(fused.moved_bytes());
}

nlohmann::ordered_json to_json(const Plan& plan) {
  auto ops = nlohmann::ordered_json::array();
  for (const Kernel& kernel : plan.kernels) {
    ops.push_back({{"name", kernel.name},
                   {"read_bytes", kernel.read_bytes()},
                   {"write_bytes", kernel.write_bytes()},
                   {"moved_bytes", kernel.moved_bytes()},
                   {"flops", kernel.flops}});
  }
  return {{"kernels", plan.kernels.size()},
          {"moved_bytes", plan.moved_bytes()},
          {"flops", plan.flops()},
          {"ai", plan.ai()},
          {"ops", std::move(ops)}};
}

}  // namespace opbook
