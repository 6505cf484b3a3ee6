#pragma once

// What the steps share, on a device.

#include "ch13_norm_rope/steps.hpp"
#include "common/cuda/launch.cuh"
#include "common/cuda/reduce.cuh"

namespace opbook::ch13::gpu {

using namespace opbook::gpu;

/// Threads of the steps in which a thread has a row, and of those in which a block has one.
inline constexpr int threads_of_rows = 128, threads_of_a_row = 256;

/// Vectors that a thread holds, and the most threads that hold a row: 8192 elements of float32.
inline constexpr int held_vectors = 4, most_holders = 512;

/// Threads that hold a row of `count` vectors: whole warps.
inline int holders(std::int64_t count) {
  const auto threads = static_cast<int>((count + held_vectors - 1) / held_vectors);
  return (threads + 31) / 32 * 32;
}

/// A sum of many squares, one after the other: what each addition loses is put into the next one
/// (Kahan's compensated summation). Left alone, the errors of thousands of additions add up. Where
/// many threads share a row each adds few terms, and none of this is needed.
class CompensatedSquares {
 public:
  __device__ void add(float v) {
    const float term = fmaf(v, v, -lost_);
    const float sum = sum_ + term;
    lost_ = isinf(sum) ? 0.0f : (sum - sum_) - term;  // Inf - Inf would make a NaN of it
    sum_ = sum;
  }
  __device__ float sum() const { return sum_; }

 private:
  float sum_ = 0, lost_ = 0;
};

/// The sum of the squares of a vector's elements: two sums, so that no addition waits long.
template <class T>
__device__ float squares_of(const Vector<T>& vector) {
  float v[vector_width<T>];
  unpack(vector, v);
  float even = v[0] * v[0], odd = v[1] * v[1];
#pragma unroll
  for (int j = 2; j < vector_width<T>; j += 2) {
    even = fmaf(v[j], v[j], even);
    odd = fmaf(v[j + 1], v[j + 1], odd);
  }
  return even + odd;
}

/// The sum over the block, in every thread.
__device__ inline float sum_over_block(float value) {
  __shared__ float partial[32];
  return block_sum(value, static_cast<int>(blockDim.x / 32), partial);
}

/// rstd of a row of n elements whose squares sum to `sum`.
__device__ inline float rstd_of(float sum, int n, float eps) {
  return rsqrtf(sum / static_cast<float>(n) + eps);
}

/// x * rstd * w, rounded to T.
template <class T>
__device__ T normalised(T x, T w, float rstd) {
  return rounded_to<T>(as_float(x) * rstd * as_float(w));
}
template <class T>
__device__ Vector<T> normalised(const Vector<T>& x, const Vector<T>& w, float rstd) {
  return map_elements<T>([&](float v, float g) { return v * rstd * g; }, x, w);
}

/// A row in registers: thread t has its vectors t, t + blockDim.x, ..., four of them, zeros beyond
/// its end.
template <class T>
struct Held {
  Vector<T> part[held_vectors];

  __device__ static int index(int k) {
    return static_cast<int>(threadIdx.x) + k * static_cast<int>(blockDim.x);
  }
  __device__ void load(const T* row, int count) {
#pragma unroll
    for (int k = 0; k < held_vectors; ++k) {
      part[k] = load_vector_if(index(k) < count, row, index(k));
    }
  }
  /// This thread's share of the sum of squares.
  __device__ float squares() const {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < held_vectors; ++k) sum += squares_of(part[k]);
    return sum;
  }
};

}  // namespace opbook::ch13::gpu
