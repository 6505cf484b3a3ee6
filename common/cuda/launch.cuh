#pragma once

// The one way in which kernels are launched: every launch is checked, and can be watched.

#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "common/cuda/check.hpp"
#include "common/cuda/device.hpp"
#include "common/error.hpp"

namespace opbook::gpu {

/// Set by LaunchWatch while there is one.
extern void (*on_launch)(const char* name, const void* kernel);

/// Queues `kernel` on `stream`, with `shared` bytes of dynamic shared memory. Throws CudaError,
/// naming it.
template <class... Parameters>
void launch(const char* name, Stream stream, void (*kernel)(Parameters...), dim3 blocks,
            dim3 threads, std::int64_t shared, std::type_identity_t<Parameters>... arguments) {
  kernel<<<blocks, threads, static_cast<std::size_t>(shared), stream>>>(arguments...);
  check(cudaGetLastError(), name);
  if (on_launch != nullptr) on_launch(name, reinterpret_cast<const void*>(kernel));
}

/// Whether the code that this device runs of `kernel` was compiled for sm_90 or newer, with all
/// that OPBOOK_SM >= 900 has. Throws CudaError, naming it.
inline bool is_compiled_for_sm90([[maybe_unused]] const void* kernel,
                                 [[maybe_unused]] const char* name) {
#ifdef OPBOOK_CUDA_FALLBACK
  return false;
#else
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), name);
  return attributes.ptxVersion >= 90;
#endif
}

/// SMs of the current device. Throws CudaError.
inline int multiprocessors() {
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  return count;
}

/// Blocks of a launch, one for each of something. Throws ArgumentError beyond CUDA's limit.
inline unsigned blocks_for(const char* argument, std::int64_t count) {
  if (count > 0x7FFFFFFF) {
    throw ArgumentError(std::string(argument) + ": got " + std::to_string(count) +
                        " blocks of work; allowed: up to 2147483647");
  }
  return static_cast<unsigned>(count);
}

}  // namespace opbook::gpu
