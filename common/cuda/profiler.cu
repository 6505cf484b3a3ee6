#include <cuda_profiler_api.h>

#include "common/cuda/check.hpp"
#include "common/cuda/profiler.hpp"

namespace opbook::gpu {

void profiler_start() {
  check(cudaProfilerStart(), "cudaProfilerStart");
}

void profiler_stop() {
  check(cudaProfilerStop(), "cudaProfilerStop");
}

}  // namespace opbook::gpu
