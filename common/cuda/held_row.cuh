#pragma once

// A row in registers: `threads` threads hold it as packed vectors, thread t the vectors t, t +
// threads, t + 2 threads, ... It is read from memory once, whatever is done with it after.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "common/cuda/vector.cuh"

namespace opbook::gpu {

/// Blocks that must fit an SM at once. Rows in flight hide the time that each of them waits for
/// memory and at its barriers: 1024 threads of 64 registers, or, with eight vectors a thread, 640
/// of 96. Spilling to fit more costs more than they bring (measured: 98 % of a copy at 64
/// registers, 84 % at 48).
constexpr int blocks_per_sm(int threads, int vectors) {
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 800 || __CUDA_ARCH__ / 100 == 9)
  constexpr int most = 32;
#else
  constexpr int most = 16;  // sm_75 and sm_86 take no more, the others at least as many
#endif
  return std::clamp((vectors <= 4 ? 1024 : 640) / threads, 1, most);
}

/// The vectors of a row that this thread holds; zeros beyond the row's `count`.
template <class T, int threads, int vectors>
struct HeldRow {
  Vector<T> part[vectors];

  __device__ static int index(int k) { return static_cast<int>(threadIdx.x) + k * threads; }

  __device__ void load(const T* row, int count) {
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      part[k] = index(k) < count ? load_vector(row, index(k)) : Vector<T>{};
    }
  }

  __device__ void store(T* row, int count) const {
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      if (index(k) < count) store_vector(row, index(k), part[k]);
    }
  }
};

/// Threads that share a row of `count` vectors: enough for `each` a thread, as far as a block goes.
inline int threads_for(std::int64_t count, int each = 4) {
  int threads = 32;
  while (threads < 1024 && threads * each < count) threads *= 2;
  return threads;
}

/// Calls launch.operator()<threads, vectors>() with what holds a row of `count` vectors, at most
/// `each` (4 or 8) a thread; false where it is too long to be held. Eight a thread make half as
/// many threads of a row, and each barrier cheaper: better where a row has two of them.
template <int each = 4, class Launch>
bool launch_held(std::int64_t count, Launch launch) {
  if (count <= 32) {
    launch.template operator()<32, 1>();
    return true;
  }
  if (count <= 128) {
    launch.template operator()<32, 4>();
    return true;
  }
  switch (threads_for(count, each)) {
    case 32:
      launch.template operator()<32, each>();
      return true;
    case 64:
      launch.template operator()<64, each>();
      return true;
    case 128:
      launch.template operator()<128, each>();
      return true;
    case 256:
      launch.template operator()<256, each>();
      return true;
    case 512:
      launch.template operator()<512, each>();
      return true;
    default:
      if constexpr (each == 4) {
        if (count <= 4096) launch.template operator()<1024, 4>();
        return count <= 4096;
      }
      return false;
  }
}

/// Vectors of a row of `cols` elements, the last one perhaps not full.
template <class T>
std::int64_t vectors_of(std::int64_t cols) {
  return (cols + vector_width<T> - 1) / vector_width<T>;
}

}  // namespace opbook::gpu
