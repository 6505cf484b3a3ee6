#pragma once

// The rotation of a normalised row's last columns, on a device.

#include "ch13_norm_rope/normalise.cuh"
#include "common/cuda/rope.cuh"

namespace opbook::ch13::gpu {

/// Where the columns that turn lie among a held row's vectors.
struct Tail {
  int first = 0;  ///< the first vector that turns
  int half = 0;   ///< vectors in each half; 0: nothing turns
  bool by_shuffle =
      false;  ///< they are the last vectors of lanes of one warp, partners `half` apart

  template <class T>
  static Tail of(const RopeTables<T>& tables, std::int64_t cols, int threads, int vectors) {
    Tail tail;
    tail.first = static_cast<int>((cols - tables.rope_dim()) / vector_width<T>);
    tail.half = static_cast<int>(tables.cos.cols / vector_width<T>);
    const int both = 2 * tail.half;
    tail.by_shuffle = both > 0 && both <= 32 && 32 % both == 0 && tail.first % both == 0 &&
                      tail.first >= (vectors - 1) * threads;
    return tail;
  }
};

/// Turns the last vectors of a held row, after they were normalised. Two ways:
///  - Where they lie in one warp, in the last vector of its lanes, as the book's 128 columns do,
///    partners meet by shuffles, and the angles were asked for together with the row: a dependent
///    load after the reduction would cost every row the latency of memory.
///  - Anywhere else partners meet in shared memory, 2 half vectors of it, and angles are loaded
///    when they are needed.
/// `by_shuffle` is the tail's, as a template case.
template <class Held, bool by_shuffle>
class TailTurn {
  using T = typename Held::T;
  static constexpr int threads = Held::threads, vectors = Held::vectors;

 public:
  /// Asks for the angles of the block's row.
  __device__ TailTurn(const AngleRows<T>& tables, const Tail& tail) : tables_(tables), tail_(tail) {
    if (early) load_angles(blockIdx.x);
  }

  /// Asks for those of another row, by its outer index, once the block's own has turned.
  __device__ void ask_for_next(unsigned outer) {
    static_assert(early);
    load_angles(outer);
  }

  /// Brings nearer those of the row of another outer index, if there is one.
  __device__ void bring_nearer(unsigned outer) const {
    const int line = static_cast<int>(threadIdx.x) * 8;  // vectors in 128 bytes
    if (line < tail_.half && outer < gridDim.x) {
      tables_.bring_nearer(tables_.row_of(row_number(outer)), line);
    }
  }

  __device__ void turn(Held& row, void* shared) {
    if constexpr (by_shuffle) {
      if (!early) load_angles(blockIdx.x);
      turn_in_warp(row.part[vectors - 1]);
    } else if (tail_.half > 0) {
      turn_in_block(row, static_cast<Vector<T>*>(shared));
    }
  }

 private:
  /// The longest rows leave no registers to keep angles in.
  static constexpr bool early = by_shuffle && threads * vectors < (sizeof(T) == 4 ? 2048 : 4096);

  /// Which of the vectors that turn vector k of this thread is; below 0 or not below 2 half: none.
  __device__ int place(int k) const { return Held::index(k) - tail_.first; }
  __device__ bool turns(int k) const { return place(k) >= 0 && place(k) < 2 * tail_.half; }
  /// Whether a last vector of this warp turns.
  __device__ bool warp_turns() const {
    const int first = place(vectors - 1) - static_cast<int>(threadIdx.x % 32);
    return first + 31 >= 0 && first < 2 * tail_.half;
  }

  __device__ void load_angles(unsigned outer) {
    if (!warp_turns()) return;
    const int p = place(vectors - 1);
    tables_.load(tables_.row_of(row_number(outer)), turns(vectors - 1),
                 p < tail_.half ? p : p - tail_.half, cos_, sin_);
  }

  __device__ void turn_in_warp(Vector<T>& own) const {
    if (!warp_turns()) return;
    Vector<T> partner;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      partner.words[j] = __shfl_xor_sync(0xFFFFFFFFu, own.words[j], tail_.half);
    }
    const bool is_low = place(vectors - 1) < tail_.half;
    if (turns(vectors - 1)) own = turned(own, partner, cos_, sin_, is_low);
  }

  /// The lower of a pair, lo c - hi s, or the higher, hi c + lo s.
  __device__ static Vector<T> turned(const Vector<T>& own, const Vector<T>& partner,
                                     const Vector<T>& cos, const Vector<T>& sin, bool is_low) {
    return map_elements<T>([&](float v, float other, float c,
                               float s) { return fmaf(v, c, other * (is_low ? -s : s)); },
                           own, partner, cos, sin);
  }

  __device__ void turn_in_block(Held& row, Vector<T>* pairs) const {
    const unsigned table_row = tables_.row_of(row_number(blockIdx.x));
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      if (turns(k)) pairs[place(k)] = row.part[k];
    }
    __syncthreads();
    for (int p = static_cast<int>(threadIdx.x); p < tail_.half; p += threads) {
      const Vector<T> low = pairs[p], high = pairs[p + tail_.half];
      Vector<T> cos, sin;
      tables_.load(table_row, true, p, cos, sin);
      pairs[p] = turned(low, high, cos, sin, true);
      pairs[p + tail_.half] = turned(high, low, cos, sin, false);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      if (turns(k)) row.part[k] = pairs[place(k)];
    }
  }

  const AngleRows<T>& tables_;
  const Tail& tail_;
  Vector<T> cos_, sin_;
};

/// Blocks that must fit an SM at once: the general case needs more registers.
template <class T>
__host__ __device__ constexpr int turning_blocks_per_sm(Case which, int threads, int vectors) {
  const int blocks = blocks_per_sm<T>(which, threads, vectors);
  if (is_usual(which)) return blocks;
  return vectors <= 4 ? blocks - blocks / 8 : (blocks + 1) / 2;
}

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
