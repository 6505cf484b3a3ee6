#include "common/problem.hpp"

#include "common/error.hpp"

namespace opbook {

std::string_view name_of(PlanKind plan) {
  return plan == PlanKind::fused ? "fused" : "unfused";
}

Tensors::Tensors(const std::vector<TensorSpec>& specs, std::int64_t offset_elements) {
  for (const TensorSpec& spec : specs) {
    arrays_.emplace(spec.name, Array(spec.name, spec.dtype, spec.shape, offset_elements));
  }
}

Array& Tensors::at(std::string_view name) {
  const auto found = arrays_.find(name);
  if (found == arrays_.end()) {
    throw ArgumentError("tensor: got \"" + std::string(name) + "\"; allowed: the operator's own");
  }
  return found->second;
}

const Array& Tensors::at(std::string_view name) const {
  return const_cast<Tensors*>(this)->at(name);
}

Verdict judge(const Check& check, const Tensors& tensors) {
  const Array& actual = tensors.at(check.tensor);
  return check.bits ? compare_bits(actual, *check.bits)
                    : compare(actual, check.expected, check.tolerance_ulp);
}

void fill_inputs(const Problem& problem, Tensors& tensors, std::uint64_t seed) {
  for (const TensorSpec& spec : problem.tensors) {
    if (spec.role == Role::input) spec.fill(tensors.at(spec.name), seed);
  }
}

void poison_results(const Problem& problem, Tensors& tensors) {
  for (const TensorSpec& spec : problem.tensors) {
    if (spec.role != Role::input) tensors.at(spec.name).poison();
  }
}

std::vector<KernelCount> replay_problem(const Problem& problem, PlanKind plan, Tensors& tensors) {
  Meter meter;
  for (const TensorSpec& spec : problem.tensors) {
    if (spec.role == Role::witness) continue;
    const Array& array = tensors.at(spec.name);
    meter.declare(spec.name, array.raw(), array.bytes());
  }
  Metered metered(meter);
  problem.replay(metered, plan, tensors);
  return meter.kernels();
}

}  // namespace opbook
