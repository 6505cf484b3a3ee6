#pragma once

// Scales and codes of a row in registers.

#include "common/cuda/held_row.cuh"
#include "common/cuda/quantise.cuh"

namespace opbook::ch13::gpu {

using namespace opbook::gpu;

/// What comes out, by the blocks of a grid.
template <class T>
struct GridQuantised {
  GridRows<float8_e4m3fn> q;
  GridRows<float> scale;
  GridRows<T> y;
  int log2_lanes;  ///< of the vectors that share a scale; below 0: one scale a row
};

/// Scale and codes of a row with one scale. `padded`: what lies beyond the row's end counts, too.
/// It is 0, or NaN if rstd is Inf or NaN. Then a row in which columns turn has a NaN of its own: of
/// a pair that is infinite, lo c - hi s or hi c + lo s is NaN.
template <bool padded, class Held>
__device__ void quantise_row(const Held& row, int count, float8_e4m3fn* q_row,
                             float* scale_of_row) {
  using T = typename Held::T;
  __shared__ std::uint32_t partial[32];
  std::uint32_t bits = 0;
#pragma unroll
  for (int k = 0; k < Held::vectors; ++k) {
    const std::uint32_t with_this = max_abs_bits(row.part[k], bits);
    bits = padded || row.index(k) < count ? with_this : bits;
  }
  const float scale = scale_of(block_max(widest<T>(bits), Held::threads / 32, partial));
  const Quotient<T> quotient(scale);
#pragma unroll
  for (int k = 0; k < Held::vectors; ++k) {
    const bool wanted = row.index(k) < count;
    if constexpr (Held::threads < 512) {
      store_codes_if(wanted, q_row, row.index(k), row.part[k], quotient);
    } else if (wanted) {  // the longest rows have no register to spare
      store_codes(q_row, row.index(k), row.part[k], quotient);
    }
  }
  if (threadIdx.x == 0) *scale_of_row = scale;
}

/// The largest magnitudes of the groups of 2^log2_lanes neighbouring vectors that neighbouring
/// lanes hold, one for each vector of this thread. Of 16-bit types the patterns of two share a
/// word, and all words go through the shuffles together, so that none waits for another.
template <class T, int vectors>
class GroupMaxima {
  static constexpr int in_a_word = sizeof(T) == 4 ? 1 : 2;
  static constexpr int words = (vectors + in_a_word - 1) / in_a_word;

 public:
  template <class Held>
  __device__ GroupMaxima(const Held& row, int log2_lanes) {
#pragma unroll
    for (int j = 0; j < words; ++j) {
      const std::uint32_t first = max_abs_bits(row.part[j * in_a_word], 0);
      if constexpr (in_a_word == 1) {
        words_[j] = first;
      } else {
        const int k = 2 * j + 1;
        const std::uint32_t second = k < vectors ? max_abs_bits(row.part[k % vectors], 0) : 0;
        words_[j] = larger(__byte_perm(first, second, 0x5410) & 0x7FFF7FFFu,
                           __byte_perm(first, second, 0x7632) & 0x7FFF7FFFu);
      }
    }
    for (int offset = 1 << log2_lanes >> 1; offset > 0; offset /= 2) {
#pragma unroll
      for (std::uint32_t& word : words_) {
        word = larger(word, __shfl_xor_sync(0xFFFFFFFFu, word, offset));
      }
    }
  }

  /// Of vector k: the pattern of a float32.
  __device__ std::uint32_t operator[](int k) const {
    std::uint32_t word = words_[0];
#pragma unroll
    for (int j = 1; j < words; ++j) word = k / in_a_word == j ? words_[j] : word;
    if constexpr (in_a_word == 1) return word;
    return widest<T>(k % 2 == 0 ? word & 0xFFFFu : word >> 16);
  }

 private:
  __device__ static std::uint32_t larger(std::uint32_t a, std::uint32_t b) {
    return in_a_word == 1 ? max(a, b) : __vmaxu2(a, b);
  }
  std::uint32_t words_[words];
};

/// As quantise_row(), with a scale for each 2^log2_lanes vectors, up to 32. No barrier is needed.
template <class T, int threads, int vectors>
__device__ void quantise_groups(const HeldRow<T, threads, vectors>& row, int count,
                                const GridQuantised<T>& out) {
  float8_e4m3fn* const q_row = out.q.own();
  float* const scales = out.scale.own();
  const GroupMaxima<T, vectors> largest(row, out.log2_lanes);
  const int first_lanes = (1 << out.log2_lanes) - 1;
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int i = row.index(k);
    const float scale = scale_of(largest[k]);
    if (i >= count) continue;
    if ((i & first_lanes) == 0) scales[i >> out.log2_lanes] = scale;
    store_codes(q_row, i, row.part[k], Quotient<T>(scale));
  }
}

/// The same of groups of at least as many vectors as a thread holds: of the lanes that share them,
/// each works out the scale of one and its inverse, and hands them to the others.
template <class T, int threads, int vectors>
__device__ void quantise_wide_groups(const HeldRow<T, threads, vectors>& row, int count,
                                     const GridQuantised<T>& out) {
  float8_e4m3fn* const q_row = out.q.own();
  const GroupMaxima<T, vectors> largest(row, out.log2_lanes);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int in_group = lane & ((1 << out.log2_lanes) - 1), own = in_group % vectors;
  const int own_index = row.index(own);
  const float scale = scale_of(largest[own]);
  if (in_group < vectors && own_index < count) {
    out.scale.own()[own_index >> out.log2_lanes] = scale;
  }
  const Quotient<T> quotient(scale);
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const auto of_group = quotient.of_lane(lane - in_group + k);
    if (row.index(k) < count) store_codes(q_row, row.index(k), row.part[k], of_group);
  }
}

}  // namespace opbook::ch13::gpu
