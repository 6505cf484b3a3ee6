#pragma once

// Reductions over the threads of a block that share a row. The order is fixed by the number of
// threads alone: the same row gives the same bits in every launch.

#include <cstdint>

#include "common/cuda/vector.cuh"

namespace opbook::gpu {

__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFFu, value, offset);
  }
  return value;
}

/// The largest among `lanes` neighbouring lanes, a power of two.
__device__ inline std::uint32_t lanes_max(std::uint32_t value, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) {
    value = max(value, __shfl_xor_sync(0xFFFFFFFFu, value, offset));
  }
  return value;
}

__device__ inline std::uint32_t warp_max(std::uint32_t value) {
#if OPBOOK_SM >= 800
  return __reduce_max_sync(0xFFFFFFFFu, value);
#else
  return lanes_max(value, 32);
#endif
}

/// The sum over the block's `warps` warps, in every thread. `partial` is shared memory of one
/// element a warp; it may be used again after another barrier.
__device__ inline float block_sum(float value, int warps, float* partial) {
  value = warp_sum(value);
  if (warps == 1) return value;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  if (warps <= 8) {  // shorter than another round of shuffles
    float sum = 0;
    for (int w = 0; w < warps; ++w) sum += partial[w];
    return sum;
  }
  return warp_sum(lane < warps ? partial[lane] : 0.0f);
}

/// The same for the largest.
__device__ inline std::uint32_t block_max(std::uint32_t value, int warps, std::uint32_t* partial) {
  value = warp_max(value);
  if (warps == 1) return value;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  return warp_max(lane < warps ? partial[lane] : 0u);
}

/// The sum of the squares of a vector's elements.
template <class T>
__device__ float sum_of_squares(const Vector<T>& vector) {
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

/// max |v| of a vector's elements and of `so_far`, kept as bit patterns: those of the absolute
/// values are ordered like the values, with NaN above Inf, so that no NaN gets lost. Two 16-bit
/// patterns are compared at a time; widest() makes one float32 of them.
template <class T>
__device__ std::uint32_t max_abs_bits(const Vector<T>& vector, std::uint32_t so_far) {
#pragma unroll
  for (const std::uint32_t word : vector.words) {
    if constexpr (std::is_same_v<T, float>) {
      so_far = max(so_far, word & 0x7FFFFFFFu);
    } else {
#if OPBOOK_SM >= 860
      // One instruction for two elements: the larger magnitude, NaN before all, and a sign that
      // widest() takes off.
      if constexpr (std::is_same_v<T, bfloat16>) {
        asm("max.NaN.xorsign.abs.bf16x2 %0, %0, %1;" : "+r"(so_far) : "r"(word));
      } else {
        asm("max.NaN.xorsign.abs.f16x2 %0, %0, %1;" : "+r"(so_far) : "r"(word));
      }
#else
      so_far = __vmaxu2(so_far, word & 0x7FFF7FFFu);
#endif
    }
  }
  return so_far;
}

/// The bit pattern, as a float32, of the largest that max_abs_bits has seen.
template <class T>
__device__ std::uint32_t widest(std::uint32_t bits) {
  if constexpr (std::is_same_v<T, float>) {
    return bits;
  } else {
    const auto largest = static_cast<std::uint16_t>(max(bits & 0x7FFFu, bits >> 16 & 0x7FFFu));
    return __float_as_uint(as_float(T{largest})) & 0x7FFFFFFFu;
  }
}

}  // namespace opbook::gpu
