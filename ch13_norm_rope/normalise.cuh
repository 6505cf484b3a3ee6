#pragma once

// What the kernels that begin with an RMSNorm share, on a device.

#include "ch13_norm_rope/rms_norm.hpp"
#include "common/cuda/held_row.cuh"
#include "common/cuda/reduce.cuh"

namespace opbook::ch13::gpu {

using namespace opbook::gpu;

/// How a row is normalised: y = x * rstd * (offset + w), rounded before the weight too if asked.
struct Normaliser {
  float one_over_n;
  float eps;
  float offset;        ///< 0 or 1
  bool before_weight;  ///< round x * rstd to T first
  bool plain;          ///< neither: what nearly every model takes

  Normaliser(std::int64_t columns, const RmsNormOptions& options)
      : one_over_n(1.0f / static_cast<float>(columns)),
        eps(options.eps),
        offset(static_cast<float>(options.weight_offset)),
        before_weight(options.rounding == Rounding::before_weight),
        plain(options.weight_offset == 0 && options.rounding == Rounding::once) {}

  /// rstd of a row whose squares sum to `sum`. A multiplication and the approximate root (2 units
  /// in the last place) instead of two divisions and a root: every row waits for them.
  __device__ float rstd(float sum) const { return rsqrtf(fmaf(sum, one_over_n, eps)); }

  template <class T>
  __device__ float apply(float x, float w, float rstd) const {
    if (plain) return x * rstd * w;  // not w + 0, which would turn -0 into +0
    const float scaled = before_weight ? as_float(rounded_to<T>(x * rstd)) : x * rstd;
    return scaled * (offset == 0.0f ? w : offset + w);
  }
};

/// A held row becomes its normalised self, rounded to T; beyond its end there is rubbish then.
/// `plain` is the normaliser's, as a template case: both in one kernel cost it registers, and a
/// branch in the loop keeps the compiler from asking for the next weights while it computes.
template <bool plain, class T, int threads, int vectors, class Then>
__device__ void normalise_held(HeldRow<T, threads, vectors>& row, const T* w, int count, float rstd,
                               const Normaliser& normaliser, Then then) {
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    // No weights earlier: otherwise the compiler asks for all of them together, before the
    // reduction, and for the registers to put them in.
    asm volatile("" ::: "memory");
    const Vector<T> weight = load_vector_if(row.index(k) < count, w, row.index(k));
    row.part[k] = map_elements<T>(
        [&](float v, float g) { return plain ? v * rstd * g : normaliser.apply<T>(v, g, rstd); },
        row.part[k], weight);
    then(k);
  }
}

/// The sum of the squares of a held row, in every thread.
template <class T, int threads, int vectors>
__device__ float sum_of_squares(const HeldRow<T, threads, vectors>& row, float* partial) {
  SquareSum<T> sum;
#pragma unroll
  for (int k = 0; k < vectors; ++k) sum.add(row.part[k]);  // beyond the row there are zeros
  return block_sum(sum.share(), threads / 32, partial);
}

/// The same of a row of any length on any boundary, with the same bits: a thread adds the same
/// elements in the same order.
template <class T>
__device__ float any_sum_of_squares(const T* row, std::int64_t size, float* partial) {
  SquareSum<T> sum;
  const int threads = static_cast<int>(blockDim.x);
  for (std::int64_t first = 0; first * vector_width<T> < size; first += threads) {
    sum.add(load_elements(row, first + threadIdx.x, size));
  }
  return block_sum(sum.share(), threads / 32, partial);
}

}  // namespace opbook::ch13::gpu
