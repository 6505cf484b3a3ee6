#include "common/cuda/device.hpp"
#include "common/cuda/launch.cuh"
#include "common/cuda/quantise.cuh"
#include "common/test/quotient_on_device.hpp"

namespace opbook::gpu {
namespace {

__device__ bool same(float a, float b) {
  return (isnan(a) && isnan(b)) || __float_as_uint(a) == __float_as_uint(b);
}
__device__ bool same_code(float a, float b) {
  return pack_e4m3(a, 0.0f) == pack_e4m3(b, 0.0f);
}
__device__ void add(unsigned long long* counter, int count) {
  if (count > 0) atomicAdd(counter, static_cast<unsigned long long>(count));
}
__device__ std::int64_t thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/// A block for each pattern of max |y|, NaN and Inf among them: every y up to it.
template <class T>
__global__ void real_scales(unsigned long long* wrong) {
  const float largest = as_float(T{static_cast<std::uint16_t>(blockIdx.x)});
  const float scale = scale_of(__float_as_uint(largest));
  const Quotient<T> quotient(scale);
  int count = 0;
  for (std::uint32_t bits = threadIdx.x; bits < 65536; bits += blockDim.x) {
    const float y = as_float(T{static_cast<std::uint16_t>(bits)});
    if (fabsf(y) > largest || (isnan(y) && !isnan(largest))) continue;
    if (!same_code(__fdiv_rn(y, scale), quotient(y))) ++count;
  }
  add(wrong, count);
}

/// A thread for each positive pattern of max |y| in float32, Inf and NaN among them.
__global__ void all_scales(unsigned long long* wrong) {
  const auto bits = static_cast<std::uint32_t>(thread());
  const float largest = __uint_as_float(bits);
  const float expected = __fdiv_rn(largest < 1e-4f ? 1e-4f : largest, 448.0f);
  add(wrong, same(expected, scale_of(bits)) ? 0 : 1);
}

__device__ std::uint32_t scrambled(std::uint64_t n) {
  n ^= n >> 31;
  n *= 0x7FB5D329728EA185ull;
  n ^= n >> 27;
  n *= 0x81DADEF4BC2DD44Dull;
  return static_cast<std::uint32_t>(n >> 32);
}

/// float32 y up to 448 scales, and scales, both of any mantissa: 4096 y a thread, which has a
/// scale.
__global__ void float32_quotients(unsigned long long* wrong) {
  const std::uint32_t random = scrambled(static_cast<std::uint64_t>(thread()) + 1);
  const std::uint32_t exponent = 127 - 22 + random % (22 + 100);
  const float scale = __uint_as_float(exponent << 23 | random >> 9);
  const Quotient<float> quotient(scale);
  int count = 0;
  for (std::uint64_t i = 0; i < 4096; ++i) {
    const std::uint32_t bits = scrambled(static_cast<std::uint64_t>(thread()) << 12 | i);
    const std::uint32_t above = exponent + 8 - (bits >> 23 & 31);  // from 2^-23 to 2^8 scales
    const float y = __uint_as_float((bits & 0x80000000u) | above << 23 | (bits & 0x7FFFFFu));
    if (!same(__fdiv_rn(y, scale), quotient(y))) ++count;
  }
  add(wrong, count);
}

/// A thread for each mantissa of a scale, near 2^-23, 1 and 2^59: the codes that TwoPartInverse
/// makes of float32 y. They can differ from those of a division only where y / s lies next to a
/// number halfway between a midpoint M of two codes and the float32 beside it: M has a mantissa of
/// up to five bits, and y is the float32 next to that number times s.
__global__ void two_parts(unsigned long long* wrong) {
  const auto mantissa = static_cast<std::uint32_t>(thread());
  int count = 0;
  for (const std::uint32_t exponent : {127 - 23, 127, 127 + 59}) {
    const float s = __uint_as_float(exponent << 23 | mantissa);
    if (!TwoPartInverse::serves_float32(s)) continue;
    const TwoPartInverse quotient(s);
    for (int k = 16; k < 32; ++k) {
      for (const int power : {-13, -12, -11, -10, -9, 4}) {  // scaled, the others are as 4
        for (const double half_an_ulp : {-0x1p-25, -0x1p-24, 0x1p-24}) {
          const double boundary = ldexp(k / 16.0 + half_an_ulp, power);
          const auto y = static_cast<float>(boundary * static_cast<double>(s));
          for (const int beside : {-1, 0, 1}) {
            const float tried = __uint_as_float(__float_as_uint(y) + beside);
            if (!same_code(__fdiv_rn(tried, s), quotient(tried))) ++count;
          }
        }
      }
    }
  }
  add(wrong, count);
}

}  // namespace

std::int64_t wrong_quotients(Tried tried) {
  DeviceMemory wrong(sizeof(unsigned long long));
  fill_on_device(nullptr, wrong.data(), 0, wrong.bytes());
  const auto run = [&](auto kernel, unsigned blocks, unsigned threads) {
    launch("wrong_quotients", nullptr, kernel, blocks, threads, 0,
           reinterpret_cast<unsigned long long*>(wrong.data()));
  };
  switch (tried) {
    case Tried::real_scales_bfloat16:
      run(real_scales<bfloat16>, 0x8000, 256);
      break;
    case Tried::real_scales_float16:
      run(real_scales<float16>, 0x8000, 256);
      break;
    case Tried::two_parts:
      run(two_parts, 1u << 15, 256);
      break;
    case Tried::all_scales:
      run(all_scales, 1u << 23, 256);
      break;
    case Tried::float32_sample:
      run(float32_quotients, 1u << 12, 256);
      break;
  }
  std::int64_t result = 0;
  copy_to_host(reinterpret_cast<std::byte*>(&result), wrong.data(), sizeof result);
  return result;
}

}  // namespace opbook::gpu
