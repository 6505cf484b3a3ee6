#include <map>

#include "common/cuda/launch.cuh"
#include "common/cuda/launch_watch.hpp"

namespace opbook::gpu {
namespace {

std::map<const void*, std::string> seen;
int count = 0;

void note(const char* name, const void* kernel) {
  seen.emplace(kernel, name);
  ++count;
}

}  // namespace

void (*on_launch)(const char* name, const void* kernel) = nullptr;

LaunchWatch::LaunchWatch() {
  seen.clear();
  count = 0;
  on_launch = note;
}
LaunchWatch::~LaunchWatch() {
  on_launch = nullptr;
}

int LaunchWatch::launches() const {
  return count;
}

std::vector<LaunchedKernel> LaunchWatch::kernels() const {
  std::vector<LaunchedKernel> kernels;
  for (const auto& [kernel, name] : seen) {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, kernel), name.c_str());
    kernels.push_back({name, attributes.numRegs, static_cast<int>(attributes.localSizeBytes)});
  }
  return kernels;
}

}  // namespace opbook::gpu
