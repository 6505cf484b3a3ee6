#include "common/cuda/device.hpp"
#include "common/cuda/launch.cuh"
#include "common/cuda/quantise.cuh"
#include "common/test/quotient_on_device.hpp"

namespace opbook::gpu {
namespace {

/// Mantissas of all kinds; exponents from those of the smallest scale, 1e-4 / 448, to those of
/// the largest, and Inf.
__device__ float nth_scale(std::uint32_t n) {
  if (n == 0) return __uint_as_float(0x7F800000u);
  if (n == 1) return 1.0f;
  std::uint32_t bits = n * 2654435761u;
  bits ^= bits >> 15;
  bits *= 2246822519u;
  const std::uint32_t exponent = 127 - 22 + n % (22 + 120);
  const std::uint32_t mantissa = n % 7 == 0 ? 0x7FFFFFu - n % 5 : bits & 0x7FFFFFu;
  return __uint_as_float(exponent << 23 | mantissa);
}

__device__ bool same(float a, float b) {
  return (isnan(a) && isnan(b)) || __float_as_uint(a) == __float_as_uint(b);
}

template <class T>
__global__ void count_wrong(unsigned long long* wrong) {
  const float scale = nth_scale(blockIdx.x);
  const Quotient<T> quotient(scale);
  for (std::uint32_t bits = threadIdx.x; bits < 65536; bits += blockDim.x) {
    const float y = as_float(T{static_cast<std::uint16_t>(bits)});
    // No y of a row lies that far above its scale, nor is one Inf under a finite scale.
    if (fabsf(y) > 448.5f * scale || (isinf(y) && !isinf(scale))) continue;
    const float expected = __fdiv_rn(y, scale), found = quotient(y);
    // Far below the smallest code, 2^-9, where remainders are subnormal, the code decides alone.
    const bool bits_matter = !(fabsf(expected) < 0x1p-40f);
    const bool right = pack_e4m3(expected, 0.0f) == pack_e4m3(found, 0.0f) &&
                       (!bits_matter || same(expected, found));
    if (!right) atomicAdd(wrong, 1ull);
  }
}

}  // namespace

std::int64_t wrong_quotients(bool bfloat, std::int64_t scales, std::int64_t& tried) {
  DeviceMemory wrong(sizeof(unsigned long long));
  fill_on_device(nullptr, wrong.data(), 0, wrong.bytes());
  launch("count_wrong", nullptr, bfloat ? count_wrong<bfloat16> : count_wrong<float16>,
         blocks_for("scales", scales), 256, 0, reinterpret_cast<unsigned long long*>(wrong.data()));
  std::int64_t result = 0;
  copy_to_host(reinterpret_cast<std::byte*>(&result), wrong.data(), sizeof result);
  tried = scales * 65536;
  return result;
}

}  // namespace opbook::gpu
