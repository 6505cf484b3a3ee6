#pragma once

// For .cu files: CUDA's error codes as exceptions.

#include <cuda_runtime_api.h>

#include <string>

#include "common/error.hpp"

namespace opbook::gpu {

/// Throws CudaError unless `error` is success. `what` is the call that returned it.
inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  // Forgotten where CUDA lets us, so that the next call is not blamed for it.
  cudaGetLastError();
  throw CudaError(std::string(what) + ": " + cudaGetErrorString(error));
}

}  // namespace opbook::gpu
