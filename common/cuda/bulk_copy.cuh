#pragma once

// Bulk asynchronous copies into shared memory (sm_90): one thread asks, the copy engine fetches,
// and no register of anybody holds what is under way.

#include <cuda_runtime.h>

#include <cstdint>

#include "common/cuda/sm.cuh"

namespace opbook::gpu {

/// A place in shared memory that is filled over and over, each time by one copy of its `bytes`, a
/// multiple of 16; both ends lie on boundaries of 16 bytes. Lies in shared memory itself.
class BulkArrival {
 public:
  /// By one thread, before a barrier of the block.
  __device__ void init() {
#if OPBOOK_SM >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&barrier_)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the copy engine sees it
#endif
  }

  /// By the same thread; but for the first time after a barrier of the block, behind which nobody
  /// reads what lies there.
  __device__ void ask(void* to, const void* from, unsigned bytes) {
#if OPBOOK_SM >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(&barrier_)),
                 "r"(bytes)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(address(to)),
        "l"(from), "r"(bytes), "r"(address(&barrier_))
        : "memory");
#endif
  }

  /// By every thread that will read it: until copy number `time` (from 0) is there. The copy before
  /// must have been waited for.
  __device__ void wait(unsigned time) {
#if OPBOOK_SM >= 900
    asm volatile(
        "{\n"
        " .reg .pred there;\n"
        " again: mbarrier.try_wait.parity.shared::cta.b64 there, [%0], %1;\n"
        " @!there bra again;\n"
        "}" ::"r"(address(&barrier_)),
        "r"(time % 2)
        : "memory");
#endif
  }

 private:
  __device__ static unsigned address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
  }
  std::uint64_t barrier_;
};

}  // namespace opbook::gpu
