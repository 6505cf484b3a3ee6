#pragma once

// The rotation of a normalised row's last columns, on a device.

#include "ch13_norm_rope/normalise.cuh"
#include "common/cuda/rope.cuh"

namespace opbook::ch13::gpu {

/// Where the columns that turn lie among a held row's vectors.
struct Tail {
  int first = 0;             ///< the first vector that turns
  int half = 0;              ///< vectors in each half; 0: nothing turns
  bool within_warp = false;  ///< all that turns lies in one warp, in one vector of each lane

  template <class T>
  static Tail of(const RopeTables<T>& tables, std::int64_t cols) {
    Tail tail;
    tail.first = static_cast<int>((cols - tables.rope_dim()) / vector_width<T>);
    tail.half = static_cast<int>(tables.cos.cols / vector_width<T>);
    const int both = 2 * tail.half;
    tail.within_warp = both > 0 && both <= 32 && 32 % both == 0 && tail.first % both == 0;
    return tail;
  }
};

/// Shared memory in which a row's pairs meet their angles: 4 half vectors.
template <class T>
struct TurnSpace {
  Vector<T>*pairs, *cos, *sin;

  __device__ TurnSpace(void* shared, const Tail& tail)
      : pairs(static_cast<Vector<T>*>(shared)), cos(pairs + 2 * tail.half), sin(cos + tail.half) {}

  static std::int64_t bytes(const RopeTables<T>& tables) {
    return 2 * tables.rope_dim() * static_cast<std::int64_t>(sizeof(T));
  }
};
inline constexpr std::int64_t most_turn_space = 40 * 1024;  // a block has 48 KB without asking

/// Asks for a row's angles together with the row, so that they do not cost another memory latency
/// after it. They have arrived, for all, after wait_for_copies() and a barrier.
template <class T>
__device__ void fetch_angles(const DeviceTables<T>& tables, const Tail& tail,
                             const TurnSpace<T>& space) {
  const int p = static_cast<int>(threadIdx.x);
  if (p >= tail.half) return;
  const Angles<T> angles(tables, blockIdx.x);
  for (int i = p; i < tail.half; i += static_cast<int>(blockDim.x)) {
    if (angles.there) {
      copy_async(space.cos + i, angles.cos + i * vector_width<T>);
      copy_async(space.sin + i, angles.sin + i * vector_width<T>);
    } else {
      float c[vector_width<T>], s[vector_width<T>];
      angles.load(0, c, s);  // NaN
      space.cos[i] = pack<T>(c);
      space.sin[i] = pack<T>(s);
    }
  }
}

/// Turns the last vectors of a normalised row. The two vectors of a pair are held by two threads:
/// they meet in shared memory. Where all of them sit in one warp, as with the 128 columns of the
/// book, the other warps neither wait nor take part.
template <class T, int threads, int vectors>
__device__ void turn_tail(HeldRow<T, threads, vectors>& row, int count, const Tail& tail,
                          const TurnSpace<T>& space) {
  constexpr int width = vector_width<T>;
  if (tail.half == 0) return;
  const int warp_of_tail = tail.first % threads / 32;
  if (tail.within_warp && static_cast<int>(threadIdx.x) / 32 != warp_of_tail) return;
  const auto meet = [&] {
    if (tail.within_warp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  };
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int i = row.index(k);
    if (i >= tail.first && i < count) space.pairs[i - tail.first] = row.part[k];
  }
  meet();
  const int first = static_cast<int>(tail.within_warp ? threadIdx.x % 32 : threadIdx.x);
  for (int p = first; p < tail.half; p += tail.within_warp ? 32 : threads) {
    float low[width], high[width], c[width], s[width];
    unpack(space.pairs[p], low);
    unpack(space.pairs[p + tail.half], high);
    unpack(space.cos[p], c);
    unpack(space.sin[p], s);
    turn(low, high, c, s);
    space.pairs[p] = pack<T>(low);
    space.pairs[p + tail.half] = pack<T>(high);
  }
  meet();
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int i = row.index(k);
    if (i >= tail.first && i < count) row.part[k] = space.pairs[i - tail.first];
  }
}

/// Calls f(column, value) for the columns of this thread, `first`, first + step, ..., of a row of
/// any length on any boundary: normalised, rounded, and the last ones turned. Both of a pair fall
/// to one thread, so that a row may be overwritten as it is read.
template <class T, class F>
__device__ void for_each_turned(const T* x, const T* w, std::int64_t cols, std::int64_t half,
                                float rstd, const Normaliser& normaliser, const Angles<T>& angles,
                                F f) {
  const auto normed = [&](std::int64_t j) {
    return as_float(rounded_to<T>(normaliser.apply<T>(as_float(x[j]), as_float(w[j]), rstd)));
  };
  const std::int64_t kept = cols - 2 * half;
  for (std::int64_t j = threadIdx.x; j < kept; j += blockDim.x) f(j, rounded_to<T>(normed(j)));
  for (std::int64_t p = threadIdx.x; p < half; p += blockDim.x) {
    float low[1] = {normed(kept + p)}, high[1] = {normed(kept + half + p)}, c[1], s[1];
    angles.load(p, c, s);
    turn(low, high, c, s);
    f(kept + p, rounded_to<T>(low[0]));
    f(kept + half + p, rounded_to<T>(high[0]));
  }
}

/// y = x with its last columns turned, as the unfused plans do it: one kernel, a thread a vector.
template <class T>
struct TurnTail {
  Rows<const T> x;
  DeviceTables<T> tables;
  template <int width>
  __device__ void operator()(std::int64_t row, std::int64_t column, float (&v)[width]) const {
    const std::int64_t half = tables.cos.cols, kept = x.cols - 2 * half;
    const T* const x_row = row_of(x, row);
    load_floats(x_row + column, v);
    if (column < kept) return;
    const std::int64_t p = column - kept;
    const bool is_low = p < half;
    float other[width], c[width], s[width];
    load_floats(x_row + (is_low ? column + half : column - half), other);
    Angles<T>(tables, row).load(is_low ? p : p - half, c, s);
    if (is_low) {
      turn(v, other, c, s);
    } else {
      turn(other, v, c, s);
    }
  }
};

}  // namespace opbook::ch13::gpu
