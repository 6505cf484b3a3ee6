#include "common/cuda/probe.hpp"

namespace opbook::gpu {

Probe probe_device() {
  return {std::nullopt, "built without a CUDA compiler"};
}

}  // namespace opbook::gpu
