#pragma once

// Launching a kernel before the one ahead of it has ended (programmatic dependent launch). Its
// blocks are placed while that one still runs, and wait there for the end of it. Of an operator on
// one row, which takes two microseconds, the launch is half a microsecond and more.

#include "common/cuda/few_blocks.hpp"
#include "common/cuda/launch.cuh"
#include "common/cuda/vector.cuh"

namespace opbook::gpu {

/// What a kernel that launch_early() launches does before its first access to memory: lets the next
/// one be placed as well, and waits until all that was queued before has ended and what it wrote
/// can be read. The `addresses` are worked out before the wait, while nothing else can be done.
template <class... T>
__device__ void await_earlier_kernels(const T*... addresses) {
#if OPBOOK_SM >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  (..., [&] { asm volatile("" ::"l"(addresses)); }());
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// As launch(), of a kernel that calls await_earlier_kernels(). To wait costs each block, a quarter
/// of the time where a block moves 4 KB: kernels of many small blocks are better launched as any
/// other.
template <class... Parameters>
void launch_early(const char* name, Stream stream, void (*kernel)(Parameters...), dim3 blocks,
                  dim3 threads, std::int64_t shared,
                  std::type_identity_t<Parameters>... arguments) {
  // Without the wait in it, it would have to be launched after what it depends on.
  if (!is_compiled_for_sm90(reinterpret_cast<const void*>(kernel), name)) {
    launch(name, stream, kernel, blocks, threads, shared, arguments...);
    return;
  }
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = static_cast<std::size_t>(shared);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), name);
  if (on_launch != nullptr) on_launch(name, reinterpret_cast<const void*>(kernel));
}

/// launch_early() of few blocks, with a kernel that calls await_earlier_kernels(); launch() of
/// many.
template <class... Parameters>
void launch_by_blocks(const char* name, Stream stream, void (*kernel)(Parameters...),
                      unsigned blocks, dim3 threads, std::int64_t shared,
                      std::type_identity_t<Parameters>... arguments) {
  const auto queue = blocks > few_blocks ? launch<Parameters...> : launch_early<Parameters...>;
  queue(name, stream, kernel, blocks, threads, shared, arguments...);
}

}  // namespace opbook::gpu
