// Default loads and stores: hints that data will not be needed again cost an H200 4 to 8 %. One
// vector a thread, not four: what counts is the order in which the whole card asks for addresses.

#include "ch02_roofline/gpu_bandwidth.hpp"
#include "common/cuda/launch.cuh"

namespace opbook::ch02::gpu {
namespace {

using namespace opbook::gpu;

struct Vectors {
  const float4 *x, *z;
  float4* y;
  std::int64_t count;
};

/// A load that the compiler leaves where it is, in every pass.
__device__ float4 load(const float4* from) {
  float4 v;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

__device__ float4 multiply_add(float4 v, float a, float4 b) {
  return {fmaf(v.x, a, b.x), fmaf(v.y, a, b.y), fmaf(v.z, a, b.z), fmaf(v.w, a, b.w)};
}

/// What a thread holds of one vector between its loads and its store.
struct Held {
  float4 first, second;
};

template <Mix mix>
__device__ Held take(const Vectors& v, std::int64_t i) {
  Held held{};
  if constexpr (mix == Mix::mix_2_1) {
    // A warp reads 1 KiB on end.
    const std::int64_t first = i / 32 * 64 + i % 32;
    held = {load(v.x + first), load(v.x + first + 32)};
  } else if constexpr (mix == Mix::triad) {
    held = {load(v.x + i), load(v.z + i)};
  } else if constexpr (mix != Mix::write) {
    held.first = load(v.x + i);
  }
  return held;
}

template <Mix mix>
__device__ void give(const Vectors& v, std::int64_t i, const Held& held) {
  if constexpr (mix == Mix::read) {
    // Never so: values lie in [1, 2). But the compiler does not know.
    if (held.first.x + held.first.y + held.first.z + held.first.w == -1.0f) v.y[0] = held.first;
  } else if constexpr (mix == Mix::write) {
    v.y[i] = {1, 1, 1, 1};
  } else if constexpr (mix == Mix::copy) {
    v.y[i] = held.first;
  } else if constexpr (mix == Mix::scale) {
    v.y[i] = multiply_add(held.first, 3.0f, {0, 0, 0, 0});
  } else if constexpr (mix == Mix::triad) {
    v.y[i] = multiply_add(held.first, 3.0f, held.second);
  } else {
    v.y[i] = multiply_add(held.first, 1.0f, held.second);
  }
}

constexpr int once_threads = 256;

template <Mix mix>
__global__ void once_kernel(Vectors v) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * once_threads + threadIdx.x;
  if (i < v.count) give<mix>(v, i, take<mix>(v, i));
}

constexpr int again_threads = 1024;
constexpr int in_flight = 4;  // vectors of a thread, so that one block keeps a multiprocessor busy

template <Mix mix>
__global__ void __launch_bounds__(again_threads) again_kernel(Vectors v, std::int64_t passes) {
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * again_threads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * again_threads + threadIdx.x;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    for (std::int64_t i = first; i < v.count; i += in_flight * threads) {
      Held held[in_flight];
#pragma unroll
      for (int j = 0; j < in_flight; ++j) {
        if (i + j * threads < v.count) held[j] = take<mix>(v, i + j * threads);
      }
#pragma unroll
      for (int j = 0; j < in_flight; ++j) {
        if (i + j * threads < v.count) give<mix>(v, i + j * threads, held[j]);
      }
    }
  }
}

__global__ void fill_kernel(float4* to, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * once_threads + threadIdx.x;
  if (i >= count) return;
  const auto value = [&](std::uint32_t lane) {
    std::uint32_t h = static_cast<std::uint32_t>(4 * i + lane) * 0x9E3779B9u;
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    return __uint_as_float(0x3F800000u | ((h ^ (h >> 13)) & 0x7FFFFFu));
  };
  to[i] = {value(0), value(1), value(2), value(3)};
}

Vectors vectors_of(const MixArrays& arrays) {
  return {reinterpret_cast<const float4*>(arrays.x), reinterpret_cast<const float4*>(arrays.z),
          reinterpret_cast<float4*>(arrays.y), arrays.vectors};
}

/// f.operator()<mix>() for the mix that is asked for.
template <class F>
void visit(Mix mix, F f) {
  switch (mix) {
    case Mix::read:
      return f.template operator()<Mix::read>();
    case Mix::write:
      return f.template operator()<Mix::write>();
    case Mix::copy:
      return f.template operator()<Mix::copy>();
    case Mix::scale:
      return f.template operator()<Mix::scale>();
    case Mix::triad:
      return f.template operator()<Mix::triad>();
    case Mix::mix_2_1:
      return f.template operator()<Mix::mix_2_1>();
  }
}

unsigned once_blocks(std::int64_t vectors) {
  return blocks_for("vectors", (vectors + once_threads - 1) / once_threads);
}

}  // namespace

void move_once(Stream stream, Mix mix, const MixArrays& arrays) {
  visit(mix, [&]<Mix which>() {
    launch("bandwidth", stream, once_kernel<which>, once_blocks(arrays.vectors), once_threads, 0,
           vectors_of(arrays));
  });
}

void move_again(Stream stream, Mix mix, const MixArrays& arrays, int blocks, std::int64_t passes) {
  visit(mix, [&]<Mix which>() {
    launch("bandwidth", stream, again_kernel<which>, blocks_for("blocks", blocks), again_threads, 0,
           vectors_of(arrays), passes);
  });
}

void fill_floats(Stream stream, std::byte* to, std::int64_t vectors) {
  launch("fill", stream, fill_kernel, once_blocks(vectors), once_threads, 0,
         reinterpret_cast<float4*>(to), vectors);
}

}  // namespace opbook::ch02::gpu
