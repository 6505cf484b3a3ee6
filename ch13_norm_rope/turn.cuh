#pragma once

// The rotation of a normalised row's last columns, on a device.

#include "ch13_norm_rope/normalise.cuh"
#include "common/cuda/rope.cuh"

namespace opbook::ch13::gpu {

/// Where the columns that turn lie among a held row's vectors.
struct Tail {
  int first = 0;             ///< the first vector that turns
  int half = 0;              ///< vectors in each half; 0: nothing turns
  bool within_warp = false;  ///< both of a pair always lie in one warp

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

/// Asks for the angles of the vectors that turn as soon as the row is asked for: they arrive
/// together, instead of one memory latency after the other.
template <class T>
__device__ void prefetch_angles(const Angles<T>& angles, const Tail& tail) {
  for (int p = static_cast<int>(threadIdx.x); p < tail.half; p += static_cast<int>(blockDim.x)) {
    angles.prefetch(p * vector_width<T>);
  }
}

/// Turns the last vectors of a normalised row. The partners of a pair are held by two threads: they
/// meet in shared memory, `exchange`, of 2 half vectors. Where they sit in one warp, as with the
/// 128 columns of the book, the other warps neither wait nor take part.
template <class T, int threads, int vectors>
__device__ void turn_tail(HeldRow<T, threads, vectors>& row, int count, const Tail& tail,
                          const Angles<T>& angles, Vector<T>* exchange) {
  constexpr int width = vector_width<T>;
  if (tail.half == 0) return;
  // The same for all lanes of a warp, most of which hold nothing that turns.
  const int last_of_warp = row.index(vectors - 1) | 31;
  if (tail.within_warp && last_of_warp < tail.first) return;
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int i = row.index(k);
    if (i >= tail.first && i < count) exchange[i - tail.first] = row.part[k];
  }
  if (tail.within_warp) {
    __syncwarp();
  } else {
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int i = row.index(k);
    if (i < tail.first || i >= count) continue;
    const int p = i - tail.first;
    const bool is_low = p < tail.half;
    const int pair = is_low ? p : p - tail.half;
    float low[width], high[width], c[width], s[width];
    unpack(exchange[pair], low);
    unpack(exchange[pair + tail.half], high);
    angles.load(pair * width, c, s);
    turn(low, high, c, s);
    row.part[k] = is_low ? pack<T>(low) : pack<T>(high);
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

/// Shared memory for the exchange, and whether a block has that much without asking.
template <class T>
std::int64_t exchange_bytes(const RopeTables<T>& tables) {
  return tables.rope_dim() * static_cast<std::int64_t>(sizeof(T));
}
inline constexpr std::int64_t most_exchange_bytes = 32 * 1024;

}  // namespace opbook::ch13::gpu
