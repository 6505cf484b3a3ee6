#include "common/cuda/late_data.hpp"
#include "common/cuda/launch.cuh"
#include "common/cuda/sm.cuh"

namespace opbook::gpu {
namespace {

constexpr long long late_cycles = 200'000;

__global__ void late_copy_kernel(std::byte* to, const std::byte* from, std::int64_t bytes) {
#if OPBOOK_SM >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  const long long begin = clock64();
  while (clock64() - begin < late_cycles) {
  }
  for (std::int64_t i = threadIdx.x; i < bytes; i += blockDim.x) to[i] = from[i];
}

}  // namespace

void late_copy(Stream stream, std::byte* to, const std::byte* from, std::int64_t bytes) {
  launch("late_copy", stream, late_copy_kernel, 1, 256, 0, to, from, bytes);
}

HostMemory::HostMemory(std::int64_t bytes) {
  void* data = nullptr;
  check(cudaHostAlloc(&data, static_cast<std::size_t>(bytes), cudaHostAllocMapped),
        "cudaHostAlloc");
  data_.reset(static_cast<std::byte*>(data));
}

void HostMemory::Free::operator()(std::byte* data) const {
  cudaFreeHost(data);
}

}  // namespace opbook::gpu
