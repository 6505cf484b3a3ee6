#include <cuda_runtime.h>

#include "ch02_roofline/gpu_peak.hpp"
#include "common/cuda/launch.cuh"
#include "common/cuda/vector.cuh"

namespace opbook::ch02::gpu {
namespace {

using namespace opbook::gpu;

constexpr int threads = 1024;
constexpr int chains = 8;  // of a thread, none of which waits for another
constexpr int steps = 32;  // unrolled, so that the loop itself is lost among them

template <class T>
__global__ void __launch_bounds__(threads)
    multiply_add_kernel(std::int64_t rounds, T a, T b, T* sink) {
  T v[chains];
#pragma unroll
  for (int c = 0; c < chains; ++c) v[c] = static_cast<T>(threadIdx.x + c);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < steps; ++step) {
#pragma unroll
      for (int c = 0; c < chains; ++c) v[c] = fma(v[c], a, b);
    }
  }
  T sum = 0;
#pragma unroll
  for (int c = 0; c < chains; ++c) sum += v[c];
  if (sum == static_cast<T>(-1)) *sink = sum;  // never so, but the compiler does not know
}

/// One warp's 16 x 8 x 16 product of bfloat16 onto float32, the operands always the same.
__device__ void mma(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
#if OPBOOK_SM >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
      " {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  d[0] += __uint_as_float(a[0] ^ b[0]);  // describe_units() tells who may call this
#endif
}

constexpr int products = 8;  // of a warp, none of which waits for another

__global__ void __launch_bounds__(threads) mma_kernel(std::int64_t rounds, float* sink) {
  // Pairs of bfloat16 between 1/2 and 1 of both signs: data that costs power as real data does.
  const std::uint32_t lane = threadIdx.x * 0x9E3779B9u;
  std::uint32_t a[4], b[2];
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = ((lane >> i) & 0x807F807Fu) | 0x3F003F00u;
#pragma unroll
  for (int i = 0; i < 2; ++i) b[i] = ((lane >> (i + 5)) & 0x807F807Fu) | 0x3F003F00u;
  float d[products][4] = {};
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma unroll
    for (int p = 0; p < products; ++p) mma(d[p], a, b);
  }
  float sum = 0;
#pragma unroll
  for (int p = 0; p < products; ++p) sum += d[p][0] + d[p][1] + d[p][2] + d[p][3];
  if (sum == -1.25f) *sink = sum;
}

__global__ void empty_kernel() {}

int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

}  // namespace

void multiply_adds(Stream stream, Arithmetic unit, int blocks, std::int64_t rounds,
                   std::byte* sink) {
  const unsigned grid = blocks_for("blocks", blocks);
  if (unit == Arithmetic::fp32) {
    launch("fp32", stream, multiply_add_kernel<float>, grid, threads, 0, rounds, 0.5f, 0.25f,
           reinterpret_cast<float*>(sink));
  } else if (unit == Arithmetic::fp64) {
    launch("fp64", stream, multiply_add_kernel<double>, grid, threads, 0, rounds, 0.5, 0.25,
           reinterpret_cast<double*>(sink));
  } else {
    launch("mma", stream, mma_kernel, grid, threads, 0, rounds, reinterpret_cast<float*>(sink));
  }
}

double flops_a_round(Arithmetic unit) {
  if (unit == Arithmetic::bf16_mma) return threads / 32 * products * 2.0 * 16 * 8 * 16;
  return 2.0 * threads * chains * steps;
}

Units describe_units() {
  Units units;
  units.major = attribute(cudaDevAttrComputeCapabilityMajor);
  units.minor = attribute(cudaDevAttrComputeCapabilityMinor);
  units.sm_count = attribute(cudaDevAttrMultiProcessorCount);
  units.clock_ghz = attribute(cudaDevAttrClockRate) / 1e6;
  units.shared_bytes_per_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  units.shared_bytes_per_sm = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  return units;
}

void queue_empty_kernel(Stream stream) {
  launch("empty kernel", stream, empty_kernel, 1, 32, 0);
}

}  // namespace opbook::ch02::gpu
