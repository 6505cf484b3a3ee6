#include <cuda_runtime.h>

#include <concepts>

#include "common/cuda/probe.hpp"

namespace opbook::gpu {
namespace {

// nvcc compiles this file once for the host and once per architecture; all of them need C++20.
static_assert(__cplusplus >= 202002L);

template <std::integral T>
__global__ void store(T* out, T value) {
  *out = value;
}

/// Runs a kernel and fetches its result.
cudaError_t run_kernel(int& result) {
  int* out = nullptr;
  cudaError_t error = cudaMalloc(&out, sizeof(int));
  if (error != cudaSuccess) return error;
  store<<<1, 1>>>(out, 13);
  error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaMemcpy(&result, out, sizeof(int), cudaMemcpyDeviceToHost);
  cudaFree(out);
  return error;
}

}  // namespace

Probe probe_device() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
    return {std::nullopt, "no NVIDIA driver is installed"};
  int device = 0;
  cudaDeviceProp properties{};
  int result = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess) error = run_kernel(result);
  if (error != cudaSuccess) {
    cudaGetLastError();  // the failure is reported here; the next call shall not see it again
    return {std::nullopt, cudaGetErrorString(error)};
  }
  if (result != 13) return {std::nullopt, "a kernel ran but its result did not arrive"};
  return {DeviceInfo{properties.name, properties.major, properties.minor,
                     properties.multiProcessorCount,
                     static_cast<std::int64_t>(properties.totalGlobalMem), properties.l2CacheSize},
          ""};
}

}  // namespace opbook::gpu
