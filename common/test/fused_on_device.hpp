#pragma once

#include <cstddef>
#include <vector>

#include "common/cuda/device.hpp"
#include "common/cuda/device_tensors.hpp"
#include "common/problem.hpp"

namespace opbook {

/// A problem's fused plan on the device, over and over on the same inputs.
class FusedOnDevice {
 public:
  explicit FusedOnDevice(const Problem& problem)
      : problem_(problem), inputs_(problem.tensors), device_(problem.tensors) {
    fill_inputs(problem, inputs_, 5);
  }
  const Tensors& inputs() const { return inputs_; }
  gpu::DeviceTensors& device() { return device_; }

  /// The bytes of all outputs. `queue` may queue something ahead of the plan.
  template <class Queue>
  std::vector<std::byte> outputs(Queue queue) {
    device_.upload(inputs_);
    queue();
    problem_.run_on_gpu(nullptr, PlanKind::fused, device_);
    gpu::synchronise();
    Tensors after(problem_.tensors);
    device_.download(after);
    std::vector<std::byte> bytes;
    for (const TensorSpec& spec : problem_.tensors) {
      const Array& array = after.at(spec.name);
      if (spec.role == Role::output) {
        bytes.insert(bytes.end(), array.raw(), array.raw() + array.bytes());
      }
    }
    return bytes;
  }
  std::vector<std::byte> outputs() {
    return outputs([] {});
  }

 private:
  const Problem& problem_;
  Tensors inputs_;
  gpu::DeviceTensors device_;
};

}  // namespace opbook
