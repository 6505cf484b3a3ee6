#pragma once

// The multiprocessor that device code is compiled for.

// Newer instructions stand beside what does without them; -DOPBOOK_CUDA_FALLBACK takes the latter
// everywhere, so that it can be tested on any device.
#if defined(__CUDA_ARCH__) && !defined(OPBOOK_CUDA_FALLBACK)
#define OPBOOK_SM __CUDA_ARCH__
#else
#define OPBOOK_SM 750
#endif

namespace opbook::gpu {

/// The most blocks that one holds at once.
__host__ __device__ constexpr int most_blocks_per_sm() {
#if OPBOOK_SM == 800 || OPBOOK_SM / 100 == 9
  return 32;
#else
  return 16;  // sm_75 and sm_86 take no more, the others at least as many
#endif
}

}  // namespace opbook::gpu
