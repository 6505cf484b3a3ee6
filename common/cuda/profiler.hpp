#pragma once

namespace opbook::gpu {

/// Between the two a profiler looks, if there is one that was told to wait for them
/// (`ncu --profile-from-start off`). Throw CudaError; DeviceUnavailable without a CUDA compiler.
void profiler_start();
void profiler_stop();

}  // namespace opbook::gpu
