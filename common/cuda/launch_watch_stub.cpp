// Stands in for launch_watch.cu: where there is no CUDA compiler, nothing is ever launched.

#include "common/cuda/launch_watch.hpp"

namespace opbook::gpu {

LaunchWatch::LaunchWatch() = default;
LaunchWatch::~LaunchWatch() = default;

int LaunchWatch::launches() const {
  return 0;
}
std::vector<LaunchedKernel> LaunchWatch::kernels() const {
  return {};
}

}  // namespace opbook::gpu
