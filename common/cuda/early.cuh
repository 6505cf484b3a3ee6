#pragma once

// Launching a kernel before the one ahead of it has ended (programmatic dependent launch). Its
// blocks are placed while that one still runs, and wait there for the end of it. An operator on
// one row takes one or two microseconds, of which a launch that waits is half of one and more.

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

/// launch() of many blocks, launch_early() of few. `of_few` calls await_earlier_kernels();
/// `of_many` may be the same kernel, where the wait costs nothing that shows.
template <class... Parameters>
void launch_by_blocks(const char* name, Stream stream, void (*of_many)(Parameters...),
                      void (*of_few)(Parameters...), dim3 blocks, dim3 threads, std::int64_t shared,
                      std::type_identity_t<Parameters>... arguments) {
  if (std::int64_t{blocks.x} * blocks.y > few_blocks) {
    launch(name, stream, of_many, blocks, threads, shared, arguments...);
  } else {
    launch_early(name, stream, of_few, blocks, threads, shared, arguments...);
  }
}

}  // namespace opbook::gpu
