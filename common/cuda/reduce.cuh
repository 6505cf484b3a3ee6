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
  const int lane = static_cast<int>(threadIdx.x % 32);
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
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  return warp_max(lane < warps ? partial[lane] : 0u);
}

/// Adds up squares of elements. All threads of a warp add together; the sum is that of their
/// shares.
///
/// Of 16-bit elements the tensor cores form them: in a product A B of 16 x 8 and 8 x 8 elements a
/// lane holds two neighbours of a row of A in one register and two of a column of B in another, so
/// that with the same register for both the diagonal is a sum of squares (and the rest is of no
/// use). One instruction for two elements instead of two unpackings and two multiplications, where
/// issue slots are short. Products are exact and sums float32, as otherwise.
template <class T>
class SquareSum {
 public:
  __device__ void add(const Vector<T>& vector) {
#if OPBOOK_SM >= 800
    if constexpr (sizeof(T) == 2) {
      const auto& v = vector.words;
      multiply(low_, v[0], v[1], v[0]);  // rows 0 to 7 of A are v[0], rows 8 to 15 v[1]
      multiply(high_, v[0], v[1], v[1]);
      multiply(low_, v[2], v[3], v[2]);
      multiply(high_, v[2], v[3], v[3]);
      return;
    }
#endif
    float v[vector_width<T>];
    unpack(vector, v);
    float even = v[0] * v[0], odd = v[1] * v[1];
#pragma unroll
    for (int j = 2; j < vector_width<T>; j += 2) {
      even = fmaf(v[j], v[j], even);
      odd = fmaf(v[j + 1], v[j + 1], odd);
    }
    low_[0] += even + odd;
  }

  /// This thread's share.
  __device__ float share() const {
#if OPBOOK_SM >= 800
    if constexpr (sizeof(T) == 2) {
      // Of C a lane holds columns 2 (lane % 4) and the next, of row lane / 4 and of that plus 8.
      const unsigned lane = threadIdx.x % 32, row = lane / 4;
      const float even = low_[0] + high_[2], odd = low_[1] + high_[3];
      const float on_diagonal = row % 2 == 0 ? even : odd;
      return lane % 4 == row / 2 ? on_diagonal : 0.0f;
    }
#endif
    return low_[0];
  }

 private:
  __device__ static void multiply(float (&c)[4], std::uint32_t a0, std::uint32_t a1,
                                  std::uint32_t b) {
#if OPBOOK_SM >= 800
    if constexpr (std::is_same_v<T, bfloat16>) {
      asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 "
          "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a0), "r"(a1), "r"(b));
    } else {
      asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
          "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a0), "r"(a1), "r"(b));
    }
#endif
  }

  float low_[4] = {}, high_[4] = {};
};

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
