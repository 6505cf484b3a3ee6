#pragma once

#include <string>
#include <vector>

namespace opbook::gpu {

/// A kernel that was launched, and what the compiler made of it.
struct LaunchedKernel {
  std::string name;     ///< the operator or the unfused plan's kernel
  int registers = 0;    ///< of a thread
  int local_bytes = 0;  ///< of a thread: what spilled, or an array indexed at run time; 0 is right
};

/// Notes every launch while it lives; one at a time.
class LaunchWatch {
 public:
  LaunchWatch();
  ~LaunchWatch();
  LaunchWatch(const LaunchWatch&) = delete;
  LaunchWatch& operator=(const LaunchWatch&) = delete;

  /// Each kernel once, however often it was launched. Throws CudaError.
  std::vector<LaunchedKernel> kernels() const;
  int launches() const;
};

}  // namespace opbook::gpu
