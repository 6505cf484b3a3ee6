#pragma once

// What a lane makes of its share of a head, in float32: some of the head's dh / 2 pairs of columns.
// Both columns of a pair are in one lane, so that RoPE needs no shuffle.
//
// A head has the same bits wherever it is computed, because every kernel adds its squares in one
// order: two neighbouring pairs make a leaf of four elements, added one by one; the leaves, in
// order, are those of a balanced binary tree. Its lower levels lie within a lane, the upper ones
// between neighbouring lanes, and it does not matter where the boundary runs: to a lane of 8 pairs
// in design D, of 2 in A, at 128 columns. Leaves that the tree has and the head has not, such as
// the last quarter of those for 96 and 192 columns, are zeros, which change nothing.

#include <cstdint>

#include "common/cuda/quantise.cuh"
#include "common/cuda/rope.cuh"

namespace opbook::ch28::gpu {

using namespace opbook::gpu;

/// Which columns are pairs in a head of `dh` columns: first those that turn, (p, p + rd / 2) of the
/// last rd; then the others, which have nothing to do with each other.
struct PairColumns {
  int low, high;
  bool turns;

  /// Pair p of a head whose last 2 half columns turn.
  __device__ PairColumns(int p, int dh, int half) : turns(p < half) {
    const int kept = dh - 2 * half;
    low = turns ? kept + p : p - half;
    high = low + (turns ? half : kept / 2);
  }
};

/// |value|, or the larger one that there was before; NaN stays NaN.
__device__ inline float max_abs(float so_far, float value) {
#if OPBOOK_SM >= 800
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(so_far) : "f"(fabsf(value)));
  return so_far;
#else
  // Patterns of absolute values are ordered like the values, NaN above Inf.
  return __uint_as_float(max(__float_as_uint(so_far), __float_as_uint(value) & 0x7FFFFFFFu));
#endif
}

template <int count>
struct Pairs {
  float low[count], high[count];

  __device__ float largest() const {
    float largest = 0.0f;
#pragma unroll
    for (int j = 0; j < count; ++j) largest = max_abs(max_abs(largest, low[j]), high[j]);
    return largest;
  }
};

/// The squares of neighbouring pairs: a part of the tree.
template <int count>
__device__ float squares(const float (&low)[count], const float (&high)[count]) {
  static_assert(count % 2 == 0 && (count & (count - 1)) == 0);
  float leaves[count / 2];
#pragma unroll
  for (int i = 0; i < count / 2; ++i) {
    float leaf = low[2 * i] * low[2 * i];
    leaf = fmaf(low[2 * i + 1], low[2 * i + 1], leaf);
    leaf = fmaf(high[2 * i], high[2 * i], leaf);
    leaves[i] = fmaf(high[2 * i + 1], high[2 * i + 1], leaf);
  }
#pragma unroll
  for (int step = 1; step < count / 2; step *= 2) {
#pragma unroll
    for (int i = 0; i < count / 2; i += 2 * step) leaves[i] += leaves[i + step];
  }
  return leaves[0];
}

template <int count>
__device__ void normalise(float (&values)[count], const float (&weight)[count], float rstd) {
#pragma unroll
  for (int j = 0; j < count; ++j) values[j] = values[j] * rstd * weight[j];
}

template <int count>
__device__ void fill(float (&values)[count], float value) {
#pragma unroll
  for (int j = 0; j < count; ++j) values[j] = value;
}

/// The sum over `lanes` neighbouring lanes, a power of two: the upper levels of the tree.
template <int lanes>
__device__ float tree_sum(float value) {
#pragma unroll
  for (int offset = 1; offset < lanes; offset *= 2) {
    value += __shfl_xor_sync(0xFFFFFFFFu, value, offset);
  }
  return value;
}

/// 1 / sqrt(mean + eps), to 2 ulp. Not contracted: the mean is rounded first, everywhere. It is a
/// product, since to divide by 96 or 192 takes ten instructions, and a branch to a hundred more.
__device__ inline float rstd_of(float sum, float columns, float eps) {
  return rsqrtf(__fadd_rn(sum * (1.0f / columns), eps));
}

}  // namespace opbook::ch28::gpu
