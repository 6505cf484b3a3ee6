#pragma once

#include <optional>

#include "common/cuda/graph.hpp"

namespace opbook::ch02::gpu {

/// Empty kernels on end, queued one by one or as one graph: what is left is the launch.
class Launches {
 public:
  /// Throws DeviceUnavailable, CudaError.
  Launches(int launches, bool as_graph);
  /// Microseconds of one launch on the device's clock, the mean of all.
  double sample_us();

 private:
  int count_;
  std::optional<opbook::gpu::Graph> graph_;
  opbook::gpu::Event before_, after_;
};

}  // namespace opbook::ch02::gpu
