#pragma once

// The rotation of a normalised row's last columns, on a device.

#include "ch13_norm_rope/normalise.cuh"
#include "common/cuda/rope.cuh"

namespace opbook::ch13::gpu {

/// Where the columns that turn lie among a held row's vectors.
struct Tail {
  int first = 0;             ///< the first vector that turns
  int half = 0;              ///< vectors in each half; 0: nothing turns
  bool in_one_warp = false;  ///< and there, partners being `half` lanes apart

  template <class T>
  static Tail of(const RopeTables<T>& tables, std::int64_t cols) {
    Tail tail;
    tail.first = static_cast<int>((cols - tables.rope_dim()) / vector_width<T>);
    tail.half = static_cast<int>(tables.cos.cols / vector_width<T>);
    const int both = 2 * tail.half;
    tail.in_one_warp = both > 0 && both <= 32 && 32 % both == 0 && tail.first % both == 0;
    return tail;
  }
};

/// Turns the last vectors of a held row, after they were normalised. Two ways:
///  - Where they lie in one warp, in the last vector of its lanes, as the book's 128 columns do,
///    partners meet by shuffles, and the angles were asked for together with the row: a dependent
///    load after the reduction would cost every row the latency of memory.
///  - Anywhere else partners meet in shared memory, 2 half vectors of it, and angles are loaded
///    when they are needed, from the L2 into which they were prefetched.
/// This is not the fastest order yet. Asking for the angles before the row, under a branch, took
/// the quantising operator from 68 to 74 % of a copy (16384 x 8192, bfloat16) and from 76 to 83 %
/// (65536 x 1024), against predicated loads after it, as they are here.
template <class T, int threads, int vectors>
class TailTurn {
 public:
  /// Asks for the angles of the block's row.
  __device__ TailTurn(const DeviceTables<T>& tables, const Tail& tail, int count)
      : tail_(tail), by_shuffle_(tail.in_one_warp && tail.first >= (vectors - 1) * threads) {
    if (tail.half == 0) return;
    const Angles<T> angles(tables, blockIdx.x);
    const int p = Held::index(vectors - 1) - tail.first;
    const bool turns = by_shuffle_ && p >= 0 && Held::index(vectors - 1) < count;
    angles.load_vectors_if(turns, p < tail.half ? p : p - tail.half, cos_, sin_);
    if (!by_shuffle_) {
      for (int i = static_cast<int>(threadIdx.x); i < tail.half; i += threads) angles.prefetch(i);
    }
  }

  __device__ void turn(HeldRow<T, threads, vectors>& row, int count, const DeviceTables<T>& tables,
                       void* shared) const {
    if (tail_.half == 0) return;
    if (by_shuffle_) {
      turn_in_warp(row.part[vectors - 1]);
    } else {
      turn_in_block(row, count, Angles<T>(tables, blockIdx.x), static_cast<Vector<T>*>(shared));
    }
  }

 private:
  using Held = HeldRow<T, threads, vectors>;
  static constexpr int width = vector_width<T>;

  __device__ void turn_in_warp(Vector<T>& own) const {
    const int p = Held::index(vectors - 1) - tail_.first;
    const bool turns = p >= 0 && p < 2 * tail_.half;
    if (!__any_sync(0xFFFFFFFFu, turns)) return;
    Vector<T> partner;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      partner.words[j] = __shfl_xor_sync(0xFFFFFFFFu, own.words[j], tail_.half);
    }
    if (turns) own = turned(own, partner, cos_, sin_, p < tail_.half);
  }

  /// The lower of a pair, lo c - hi s, or the higher, hi c + lo s.
  __device__ static Vector<T> turned(const Vector<T>& own, const Vector<T>& partner,
                                     const Vector<T>& cos, const Vector<T>& sin, bool is_low) {
    float v[width], other[width], c[width], s[width];
    unpack(own, v);
    unpack(partner, other);
    unpack(cos, c);
    unpack(sin, s);
#pragma unroll
    for (int j = 0; j < width; ++j) v[j] = fmaf(v[j], c[j], other[j] * (is_low ? -s[j] : s[j]));
    return pack<T>(v);
  }

  __device__ void turn_in_block(Held& row, int count, const Angles<T>& angles,
                                Vector<T>* pairs) const {
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      const int p = row.index(k) - tail_.first;
      if (p >= 0 && row.index(k) < count) pairs[p] = row.part[k];
    }
    __syncthreads();
    for (int p = static_cast<int>(threadIdx.x); p < tail_.half; p += threads) {
      const Vector<T> low = pairs[p], high = pairs[p + tail_.half];
      Vector<T> cos, sin;
      angles.load_vectors(p, cos, sin);
      pairs[p] = turned(low, high, cos, sin, true);
      pairs[p + tail_.half] = turned(high, low, cos, sin, false);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      const int p = row.index(k) - tail_.first;
      if (p >= 0 && row.index(k) < count) row.part[k] = pairs[p];
    }
  }

  Tail tail_;
  bool by_shuffle_;
  Vector<T> cos_, sin_;
};

/// Shared memory in which pairs meet.
template <class T>
std::int64_t turn_bytes(const RopeTables<T>& tables) {
  return tables.rope_dim() * static_cast<std::int64_t>(sizeof(T));
}
inline constexpr std::int64_t most_turn_bytes = 40 * 1024;  // a block has 48 KB without asking

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
    const std::int64_t half = tables.half, kept = x.cols - 2 * half;
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
