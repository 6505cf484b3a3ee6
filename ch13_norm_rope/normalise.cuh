#pragma once

// What the kernels that begin with an RMSNorm share, on a device.

#include "ch13_norm_rope/rms_norm.hpp"
#include "common/cuda/held_row.cuh"
#include "common/cuda/reduce.cuh"

namespace opbook::ch13::gpu {

using namespace opbook::gpu;

/// How a row is normalised: y = x * rstd * (offset + w), rounded before the weight too if asked.
struct Normaliser {
  float n;
  float eps;
  float offset;        ///< 0 or 1
  bool before_weight;  ///< round x * rstd to T first
  bool plain;          ///< neither: what nearly every model takes

  Normaliser(std::int64_t columns, const RmsNormOptions& options)
      : n(static_cast<float>(columns)),
        eps(options.eps),
        offset(static_cast<float>(options.weight_offset)),
        before_weight(options.rounding == Rounding::before_weight),
        plain(options.weight_offset == 0 && options.rounding == Rounding::once) {}

  /// rstd of a row whose squares sum to `sum`. Once a row: exact division and root cost nothing.
  __device__ float rstd(float sum) const { return 1.0f / sqrtf(sum / n + eps); }

  template <class T>
  __device__ float apply(float x, float w, float rstd) const {
    if (plain) return x * rstd * w;  // not w + 0, which would turn -0 into +0
    const float scaled = before_weight ? as_float(rounded_to<T>(x * rstd)) : x * rstd;
    return scaled * (offset == 0.0f ? w : offset + w);
  }
};

template <class T, bool plain>
__device__ Vector<T> normalised(const Normaliser& normaliser, const Vector<T>& x,
                                const Vector<T>& w, float rstd) {
  float v[vector_width<T>], g[vector_width<T>];
  unpack(x, v);
  unpack(w, g);
#pragma unroll
  for (int j = 0; j < vector_width<T>; ++j) {
    v[j] = plain ? v[j] * rstd * g[j] : normaliser.apply<T>(v[j], g[j], rstd);
  }
  return pack<T>(v);
}

template <bool plain, class T, int threads, int vectors>
__device__ void normalise_as(HeldRow<T, threads, vectors>& row, const T* w, int count, float rstd,
                             const Normaliser& normaliser) {
  // Two vectors at a time, and of a long row no earlier: otherwise the compiler asks for all
  // weights together, and for the registers to put them in.
  constexpr int together = vectors < 2 ? vectors : 2;
#pragma unroll
  for (int first = 0; first < vectors; first += together) {
    Vector<T> weight[together];
    if constexpr (vectors > 4) asm volatile("" ::: "memory");
#pragma unroll
    for (int k = 0; k < together; ++k) {
      const int i = row.index(first + k);
      if (i < count) weight[k] = load_constant(w, i);
    }
#pragma unroll
    for (int k = 0; k < together; ++k) {
      if (row.index(first + k) >= count) continue;
      Vector<T>& part = row.part[first + k];
      part = normalised<T, plain>(normaliser, part, weight[k], rstd);
    }
  }
}

/// A held row becomes its normalised self, rounded to T. One branch a row: one a vector would keep
/// the compiler from asking for the next weights while it computes.
template <class T, int threads, int vectors>
__device__ void normalise_held(HeldRow<T, threads, vectors>& row, const T* w, int count, float rstd,
                               const Normaliser& normaliser) {
  if (normaliser.plain) {
    normalise_as<true>(row, w, count, rstd, normaliser);
  } else {
    normalise_as<false>(row, w, count, rstd, normaliser);
  }
}

/// The sum of the squares that this thread holds of a row.
template <class T, int threads, int vectors>
__device__ float row_squares(const HeldRow<T, threads, vectors>& row) {
  float sum = 0;
#pragma unroll
  for (int k = 0; k < vectors; ++k) sum += sum_of_squares(row.part[k]);
  return sum;
}

/// The sum of the squares of a whole row of any length on any boundary, in every thread, with the
/// same bits: a thread adds the same elements in the same order.
template <class T>
__device__ float any_sum_of_squares(const T* row, std::int64_t size, float* partial) {
  float sum = 0;
  const int threads = static_cast<int>(blockDim.x);
  for (std::int64_t i = threadIdx.x; i * vector_width<T> < size; i += threads) {
    sum += sum_of_squares(load_elements(row, i, size));
  }
  return block_sum(sum, threads / 32, partial);
}

}  // namespace opbook::ch13::gpu
