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
  char pci_bus_id[32] = "";
  if (error == cudaSuccess) error = cudaDeviceGetPCIBusId(pci_bus_id, sizeof pci_bus_id, device);
  if (error == cudaSuccess) error = run_kernel(result);
  if (error != cudaSuccess) {
    cudaGetLastError();  // the failure is reported here; the next call shall not see it again
    return {std::nullopt, cudaGetErrorString(error)};
  }
  if (result != 13) return {std::nullopt, "a kernel ran but its result did not arrive"};
  return {DeviceInfo{
              .name = properties.name,
              .major = properties.major,
              .minor = properties.minor,
              .sm_count = properties.multiProcessorCount,
              .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
              .l2_bytes = properties.l2CacheSize,
              .toolkit = std::to_string(CUDART_VERSION / 1000) + "." +
                         std::to_string(CUDART_VERSION % 1000 / 10),
              .pci_bus_id = pci_bus_id,
          },
          ""};
}

}  // namespace opbook::gpu
