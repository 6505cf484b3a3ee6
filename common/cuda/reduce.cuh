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

/// The sum over the block's `warps` warps, in every thread, in the order of their places; this
/// one's is `warp`. `partial` is shared memory of one element a warp; it may be used again after
/// another barrier.
__device__ inline float block_sum(float value, int warps, float* partial, int warp) {
  value = warp_sum(value);
  if (warps == 1) return value;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  if (warps <= 8) {  // shorter than another round of shuffles
    float sum = 0;
    for (int w = 0; w < warps; ++w) sum += partial[w];
    return sum;
  }
  return warp_sum(lane < warps ? partial[lane] : 0.0f);
}
__device__ inline float block_sum(float value, int warps, float* partial) {
  return block_sum(value, warps, partial, static_cast<int>(threadIdx.x / 32));
}

/// The same for the largest.
__device__ inline std::uint32_t block_max(std::uint32_t value, int warps, std::uint32_t* partial) {
  value = warp_max(value);
  if (warps == 1) return value;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  if (warps <= 8) {
    value = partial[0];
    for (int w = 1; w < warps; ++w) value = max(value, partial[w]);
    return value;
  }
  return warp_max(lane < warps ? partial[lane] : 0u);
}

/// c += A B on the tensor cores, for a warp: A has 16 x 8 16-bit elements, of which a lane holds
/// two neighbours of row lane / 4 in a0 and of that row plus 8 in a1; B has 8 x 8, two neighbours
/// of column lane / 4 in b; c is float32, columns 2 (lane % 4) and the next of both rows. Products
/// are exact. Needs sm_80.
template <class T>
__device__ void multiply_add(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b) {
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

/// Whether this lane has elements of c's diagonals above, of row lane / 4 and of that row plus 8:
/// eight lanes do.
__device__ inline bool is_on_diagonal() {
  return threadIdx.x % 4 == threadIdx.x % 32 / 8;
}

/// block_sum() of values that eight lanes of each warp have, `lane` % 8 different in all of them,
/// and the others zeros: the same bits, and less time for a block that has nothing else to wait
/// for. Shuffles follow one another; here every thread adds up what the lanes of all warps have, in
/// the order in which their shuffles would. `partial` has 8 elements a warp, on a boundary of 16
/// bytes. One row of 4096 bfloat16, normalised by a trial kernel in a graph: 1.43 us so, 1.67 by
/// shuffles; in another run a cluster of blocks took 1.56 where rms_norm took 1.41. Of eight warps
/// and more the reading takes longer than the shuffles.
template <int warps>
__device__ float block_sum_of_eights(float value, bool is_of_eight, float* partial) {
  const unsigned lane = threadIdx.x % 32;
  // warp_sum() joins lanes 16 apart first, and neighbours last: the order of their bits reversed.
  const unsigned place = (lane & 1) * 4 + (lane & 2) + (lane & 4) / 4;
  if (is_of_eight) partial[threadIdx.x / 32 * 8 + place] = value;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int w = 0; w < warps; ++w) {
    const float4 a = reinterpret_cast<const float4*>(partial)[2 * w];
    const float4 b = reinterpret_cast<const float4*>(partial)[2 * w + 1];
    sum += ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
  }
  return sum;
}

/// The same, through the same `partial`, of values that all lanes have: two shuffles leave eight.
template <int warps>
__device__ float block_sum_by_eights(float value, float* partial) {
  value += __shfl_xor_sync(0xFFFFFFFFu, value, 16);
  value += __shfl_xor_sync(0xFFFFFFFFu, value, 8);
  return block_sum_of_eights<warps>(value, threadIdx.x % 32 < 8, partial);
}

/// Adds up squares of elements. All threads of a warp add together; the sum is that of their
/// shares.
///
/// Of 16-bit elements the tensor cores form them: with the same register for a row of A and a
/// column of B, the diagonal of A B is a sum of squares (and the rest is of no use). One
/// instruction for two elements instead of two unpackings and two multiplications, where issue
/// slots are short.
template <class T>
class SquareSum {
 public:
  __device__ void add(const Vector<T>& vector) {
#if OPBOOK_SM >= 800
    if constexpr (sizeof(T) == 2) {
      const auto& v = vector.words;
      multiply_add<T>(low_, v[0], v[1], v[0]);
      multiply_add<T>(high_, v[0], v[1], v[1]);
      multiply_add<T>(low_, v[2], v[3], v[2]);
      multiply_add<T>(high_, v[2], v[3], v[3]);
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
      const float even = low_[0] + high_[2], odd = low_[1] + high_[3];
      const float on_diagonal = threadIdx.x / 4 % 2 == 0 ? even : odd;
      return is_on_diagonal() ? on_diagonal : 0.0f;
    }
#endif
    return low_[0];
  }

 private:
  float low_[4] = {}, high_[4] = {};  ///< of rows 0 to 7, and of rows 8 to 15
};

/// The same for the elements themselves: 16-bit ones times a matrix of ones.
template <class T>
class ElementSum {
 public:
  __device__ void add(const Vector<T>& vector) {
#if OPBOOK_SM >= 800
    if constexpr (sizeof(T) == 2) {
      constexpr std::uint32_t ones = std::is_same_v<T, bfloat16> ? 0x3F803F80u : 0x3C003C00u;
      multiply_add<T>(sums_, vector.words[0], vector.words[1], ones);
      multiply_add<T>(sums_, vector.words[2], vector.words[3], ones);
      return;
    }
#endif
    float v[vector_width<T>];
    unpack(vector, v);
    float even = v[0], odd = v[1];
#pragma unroll
    for (int j = 2; j < vector_width<T>; j += 2) {
      even += v[j];
      odd += v[j + 1];
    }
    sums_[0] += even + odd;
  }

  /// This thread's share.
  __device__ float share() const {
#if OPBOOK_SM >= 800
    if constexpr (sizeof(T) == 2) {  // every column is the sum of its row
      return is_on_diagonal() ? sums_[0] + sums_[2] : 0.0f;
    }
#endif
    return sums_[0];
  }

 private:
  float sums_[4] = {};
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
