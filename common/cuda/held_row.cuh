#pragma once

// A row in registers: `threads` threads hold it as packed vectors, thread t the vectors t, t +
// threads, t + 2 threads, ... It is read from memory once, whatever is done with it after.
//
// A block holds a row, and what hides the time that a row waits for memory and at its barriers are
// the other rows on the same multiprocessor. Three things keep them many, or their waits short:
//  - the row stays packed, and weights are asked for late, a vector at a time: 56 to 80 registers a
//    thread. Without spilling, that is: it costs more than any number of rows brings.
//  - a block asks the L2 for a row that a later block will read, where too little is under way.
//  - eight vectors a thread rather than four where a row is long: fewer threads meet at a barrier.

#include <cuda_runtime.h>

#include <cstdint>

#include "common/cuda/ahead.cuh"
#include "common/cuda/sm.cuh"
#include "common/cuda/vector.cuh"
#include "common/rows.hpp"

namespace opbook::gpu {

/// Blocks that must fit an SM at once: 1152 threads of 56 registers or, with eight vectors a
/// thread, 768 of 80. Of 512 such threads two, again of 64, or in float32, which would spill, one.
/// Between four and eight vectors registers grow by six a vector.
template <class T>
__host__ __device__ constexpr int blocks_per_sm(int threads, int vectors) {
#if defined(__CUDA_ARCH__) && OPBOOK_SM < 800
  return threads <= 64 ? 8 : 1;  // the fallbacks take more registers
#endif
#if defined(__CUDA_ARCH__) && OPBOOK_SM / 100 != 9
  // Those numbers are sm_90's; code of the others takes some registers more, and would spill.
  if (threads == 512) return 1;
  const int held = vectors <= 4 ? 1024 : 640;
#else
  if (threads == 512 && vectors > 4) return sizeof(T) == 2 ? 2 : 1;
  const int held = vectors <= 4 ? 1152 : vectors == 5 ? 1024 : vectors == 6 ? 896 : 768;
#endif
  const int wanted = held / threads;
  return wanted < most_blocks_per_sm() ? wanted : most_blocks_per_sm();
}

/// The vectors of a row that this thread holds; zeros beyond the row's `count`. `shifted`: a warp's
/// place in the row moves on with the blocks. What a single warp has to do, such as to turn the
/// last columns, then falls to each of the SM's four schedulers in turn, instead of always to the
/// same.
template <class Element, int held_by, int held, bool shifted = false>
struct HeldRow {
  using T = Element;
  static constexpr int threads = held_by, vectors = held;

  Vector<T> part[vectors];

  /// The place of this thread among those that hold the row, and of its warp.
  __device__ static int place() {
    return static_cast<int>(shifted ? (threadIdx.x + 32 * blockIdx.x) % threads : threadIdx.x);
  }
  __device__ static int warp() { return place() / 32; }
  __device__ static int index(int k) { return place() + k * threads; }

  __device__ void load(const T* row, int count) {
#pragma unroll
    for (int k = 0; k < vectors; ++k) part[k] = load_vector_if(index(k) < count, row, index(k));
  }

  /// From where the whole row lies side by side, in shared memory say.
  __device__ void take(const Vector<T>* row) {
#pragma unroll
    for (int k = 0; k < vectors; ++k) part[k] = row[index(k)];
  }

  /// Between two passes over the row: keeps the compiler from holding the values that one pass
  /// unpacked for the next, in twice the registers.
  __device__ void stay_packed() {
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
#pragma unroll
      for (std::uint32_t& word : part[k].words) asm volatile("" : "+r"(word));
    }
  }

  __device__ void store(T* row, int count) const {
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      if (index(k) < count) store_vector(row, index(k), part[k]);
    }
  }
};

/// Rows as the blocks of a grid find theirs: block (i, j) that of outer index i and inner index j.
template <class T>
struct GridRows {
  T* data;
  std::int64_t outer_stride, inner_stride;

  __device__ T* at(unsigned outer) const {
    return data + outer * outer_stride + blockIdx.y * inner_stride;
  }
  __device__ T* own() const { return at(blockIdx.x); }
};

/// The number of the row of an outer index, among all rows.
__device__ inline unsigned row_number(unsigned outer) {
  return outer * gridDim.y + blockIdx.y;
}

/// A grid with a block a row, for views that are to be walked together. Whatever is to be divided
/// is divided here: a kernel at the speed of memory has no time for it.
class RowGrid {
 public:
  template <class... T>
  explicit RowGrid(Rows<T>... views) {
    (settle(views), ...);
    fits_ = outer_ <= 0x7FFFFFFF && inner_ <= 65535 && outer_ * inner_ < 0xFFFFFFFF &&
            (matches(views) && ...);
  }

  /// Whether there is such a grid: views with two strides must have the same inner dimension.
  bool fits() const { return fits_; }
  std::int64_t rows() const { return outer_ * inner_; }
  dim3 blocks() const { return {static_cast<unsigned>(outer_), static_cast<unsigned>(inner_)}; }

  template <class T>
  GridRows<T> operator()(Rows<T> view) const {
    if (!is_flat(view)) return {view.data, view.outer_stride, view.inner_stride};
    const std::int64_t stride = view.inner == 1 ? view.outer_stride : view.inner_stride;
    return {view.data, inner_ * stride, stride};
  }

 private:
  template <class T>
  static bool is_flat(Rows<T> view) {
    return view.inner == 1 || view.outer <= 1 ||
           view.outer_stride == view.inner * view.inner_stride;
  }
  template <class T>
  void settle(Rows<T> view) {
    if (outer_ < 0) outer_ = view.rows();
    if (is_flat(view) || inner_ > 1) return;
    outer_ = view.outer;
    inner_ = view.inner;
  }
  template <class T>
  bool matches(Rows<T> view) const {
    return is_flat(view) || view.inner == inner_;
  }

  std::int64_t outer_ = -1, inner_ = 1;
  bool fits_ = false;
};

/// The outer index of the row to be brought nearer.
template <class T, int threads, int vectors>
__device__ unsigned row_ahead() {
  constexpr int at_once = blocks_per_sm<T>(threads, vectors);
  return block_ahead(at_once);
}

/// Threads of a block and vectors a thread that hold a row.
struct RowShape {
  int threads, vectors;
};

/// Those for a row of `count` vectors: up to `four` vectors four a thread, beyond them eight; no
/// vectors where the row is too long to be held.
template <int four = 1024>
RowShape row_shape(std::int64_t count) {
  if (count <= 32) return {32, 1};
  for (int threads = 32; threads * 4 <= four; threads *= 2) {
    if (count <= threads * 4) return {threads, 4};
  }
  for (int threads = four / 4; threads <= 512; threads *= 2) {
    if (count <= threads * 8) return {threads, 8};
  }
  return {1024, 0};
}

/// Calls launch.operator()<threads, vectors>() with that shape; false where the row is too long.
template <int four = 1024, class Launch>
bool launch_held(std::int64_t count, Launch launch) {
  const RowShape shape = row_shape<four>(count);
  const auto as = [&]<int threads, int vectors>() {
    if (shape.threads != threads || shape.vectors != vectors) return false;
    launch.template operator()<threads, vectors>();
    return true;
  };
  const auto by_four_or_eight = [&]<int held>() {  // `held` vectors in all
    constexpr int vectors = held <= four ? 4 : 8;
    return as.template operator()<held / vectors, vectors>();
  };
  return as.template operator()<32, 1>() || by_four_or_eight.template operator()<128>() ||
         by_four_or_eight.template operator()<256>() ||
         by_four_or_eight.template operator()<512>() ||
         by_four_or_eight.template operator()<1024>() ||
         by_four_or_eight.template operator()<2048>() ||
         by_four_or_eight.template operator()<4096>();
}

/// Where fewer than `vectors` vectors a thread hold a row of `count`, three instead of four, or
/// five to seven instead of eight: returns launch.operator()<that many>(); elsewhere false. Few
/// widths of models are powers of two, and with fewer vectors a thread more rows are under way. The
/// row's bits stay the same, since each vector stays with its thread.
template <int threads, int vectors, class Launch>
bool launch_trimmed(std::int64_t count, Launch launch) {
  constexpr int fewer = vectors - 1;
  if constexpr (vectors == 4 || vectors > 5) {
    if (count > threads * fewer) return false;
    return launch_trimmed<threads, fewer>(count, launch) || launch.template operator()<fewer>();
  }
  return false;
}

/// Vectors of a row of `cols` elements, the last one perhaps not full.
template <class T>
std::int64_t vectors_of(std::int64_t cols) {
  return (cols + vector_width<T> - 1) / vector_width<T>;
}

}  // namespace opbook::gpu
