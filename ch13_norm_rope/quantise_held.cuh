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

/// The same with a scale for each 2^log2_lanes neighbouring vectors, which neighbouring lanes hold:
/// up to 32. No barrier is needed. All of a thread's vectors go through the shuffles together, so
/// that one does not wait for another's; and the logarithm saves two divisions a vector, half of
/// all instructions.
template <class T, int threads, int vectors>
__device__ void quantise_groups(const HeldRow<T, threads, vectors>& row, int count,
                                const GridQuantised<T>& out) {
  float8_e4m3fn* const q_row = out.q.own();
  float* const scales = out.scale.own();
  const int lanes = 1 << out.log2_lanes;
  std::uint32_t largest[vectors];
#pragma unroll
  for (int k = 0; k < vectors; ++k) largest[k] = widest<T>(max_abs_bits(row.part[k], 0));
  for (int offset = lanes / 2; offset > 0; offset /= 2) {
#pragma unroll
    for (std::uint32_t& bits : largest) {
      bits = max(bits, __shfl_xor_sync(0xFFFFFFFFu, bits, offset));
    }
  }
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int i = row.index(k);
    const float scale = scale_of(largest[k]);
    if (i >= count) continue;
    if ((i & (lanes - 1)) == 0) scales[i >> out.log2_lanes] = scale;
    store_codes(q_row, i, row.part[k], Quotient<T>(scale));
  }
}

}  // namespace opbook::ch13::gpu
