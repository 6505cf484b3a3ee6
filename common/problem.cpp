#include "common/problem.hpp"

#include <algorithm>

#include "common/cuda/device_tensors.hpp"
#include "common/error.hpp"

namespace opbook {

std::string_view name_of(PlanKind plan) {
  switch (plan) {
    case PlanKind::unfused:
      return "unfused";
    case PlanKind::fused:
      return "fused";
    case PlanKind::witnessed:
      return "witnessed";
  }
  return "";
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

void Tensors::pad_rows(std::int64_t gap) {
  for (const auto& [name, array] : arrays_) {
    if (array.shape().size() < 2) continue;
    const std::vector<std::int64_t> shape = {array.row_count(), array.cols() + gap};
    padded_.insert_or_assign(name, Array(name, array.dtype(), shape));
  }
}

void Tensors::scatter() {
  for (auto& [name, copy] : padded_) {
    const Array& array = at(name);
    copy.poison();
    const std::int64_t row = array.cols() * size_of(array.dtype());
    const std::int64_t step = copy.cols() * size_of(array.dtype());
    for (std::int64_t i = 0; i < array.row_count(); ++i) {
      std::copy_n(array.raw() + i * row, row, copy.raw() + i * step);
    }
  }
}

void Tensors::gather() {
  for (auto& [name, copy] : padded_) {
    Array& array = at(name);
    const std::int64_t row = array.cols() * size_of(array.dtype());
    const std::int64_t step = copy.cols() * size_of(array.dtype());
    for (std::int64_t i = 0; i < array.row_count(); ++i) {
      std::copy_n(copy.raw() + i * step, row, array.raw() + i * row);
    }
  }
}

bool Tensors::gaps_intact() const {
  for (const auto& [name, copy] : padded_) {
    const Array& array = at(name);
    const std::int64_t row = array.cols() * size_of(array.dtype());
    const std::int64_t step = copy.cols() * size_of(array.dtype());
    for (std::int64_t i = 0; i < array.row_count(); ++i) {
      const std::byte* const gap = copy.raw() + i * step + row;
      const bool intact = std::all_of(gap, gap + step - row,
                                      [](std::byte byte) { return byte == std::byte{0xFF}; });
      if (!intact) return false;
    }
    if (!copy.guards_intact()) return false;
  }
  return true;
}

Verdict judge(const Check& check, const Tensors& tensors) {
  const Array& actual = tensors.at(check.tensor);
  return check.bits ? compare_bits(actual, *check.bits)
                    : compare(actual, check.expected, check.tolerance_ulp);
}

Problem step_of(const Problem& problem, std::size_t i) {
  Problem stepped = problem;
  stepped.steps = {problem.steps.at(i)};
  stepped.run_on_gpu = [whole = problem.run_on_gpu, step = problem.steps.at(i).run_on_gpu](
                           gpu::Stream stream, PlanKind plan, gpu::DeviceTensors& tensors) {
    (plan == PlanKind::unfused ? whole : step)(stream, plan, tensors);
  };
  stepped.with_rows = [with_rows = problem.with_rows, i](std::int64_t rows) {
    return step_of(with_rows(rows), i);
  };
  return stepped;
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

Run run_on_cpu(const Problem& problem, Fast& fast) {
  return [&](PlanKind plan, Tensors& tensors) { problem.run(fast, plan, tensors); };
}

Run run_on_device(const Problem& problem, gpu::DeviceTensors& device) {
  if (!problem.run_on_gpu) {
    throw DeviceUnavailable("--device: got \"cuda\", for which " + problem.op +
                            " has no kernels; allowed: cpu");
  }
  return [&](PlanKind plan, Tensors& tensors) {
    device.upload(tensors);
    problem.run_on_gpu(nullptr, plan, device);
    gpu::synchronise();
    device.download(tensors);
    const std::string damaged = device.damaged();
    if (!damaged.empty()) throw CheckFailed(damaged + ": the GPU wrote beyond its ends");
  };
}

std::vector<KernelCount> replay_problem(const Problem& problem, PlanKind plan, Tensors& tensors,
                                        CacheCurve* curve) {
  Meter meter(curve);
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
