#pragma once

// What a block does for a later one: it asks the L2 for what that block will read. The later block
// then waits for the L2 alone, which answers sooner than memory, and memory is kept busy although
// the blocks that an SM can hold at once are too few for that.

#include <cuda_runtime.h>

#include <cstdint>

#include "common/cuda/vector.cuh"

namespace opbook::gpu {

/// The block to be served while this one waits for its own, which is not below gridDim.x where
/// there is none: as many blocks ahead as a quarter of those that the card holds at once, `at_once`
/// an SM. Nearer, it comes too late; at twice as many as all of them it is gone again.
__device__ inline unsigned block_ahead(unsigned at_once) {
  unsigned sms;
  asm("mov.u32 %0, %%nsmid;" : "=r"(sms));
  return blockIdx.x + sms * at_once / 4;
}

/// Brings `bytes` from a 16-byte boundary on into the L2, a multiple of 16. All threads of the
/// block call it together.
__device__ inline void bring_nearer(const void* from, unsigned bytes) {
#if OPBOOK_SM >= 900
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes));
  }
#else
  for (unsigned i = threadIdx.x * 128; i < bytes; i += blockDim.x * 128) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const std::byte*>(from) + i));
  }
#endif
}

}  // namespace opbook::gpu
