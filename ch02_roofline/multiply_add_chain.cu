// Sixteen bytes a thread, one after the other through memory: what copies fastest (bandwidth.cu).
// Their four or eight elements are as many independent chains, and a multiprocessor has warps
// enough besides: no multiply-add waits for the one before it.

#include "ch02_roofline/ledger.hpp"
#include "ch02_roofline/multiply_add_chain.hpp"
#include "common/cuda/launch.cuh"
#include "common/cuda/vector.cuh"

namespace opbook::ch02::gpu {
namespace {

using namespace opbook::gpu;

constexpr int threads = 256;

template <int width>
__device__ void steps(float (&v)[width], float a, float b, int k) {
#pragma unroll 8
  for (int step = 0; step < k; ++step) {
#pragma unroll
    for (int j = 0; j < width; ++j) v[j] = fmaf(v[j], a, b);
  }
}

/// `width` neighbours a thread; the last thread takes what is left one by one.
template <int width, class T>
__global__ void chain_kernel(const T* x, T* y, std::int64_t n, float a, float b, int k) {
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x) * width;
  if (first + width <= n) {
    float v[width];
    load_floats(x + first, v);
    steps(v, a, b, k);
    store_floats(y + first, v);
    return;
  }
  for (std::int64_t i = first; i < n; ++i) {
    float v[1];
    load_floats(x + i, v);
    steps(v, a, b, k);
    store_floats(y + i, v);
  }
}

template <class T>
void launch_chain(const char* name, Stream stream, Row<const T> x, float a, float b, std::int64_t k,
                  Row<T> y) {
  const auto on_boundary = [](const void* at) {
    return reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
  };
  const bool vectors = on_boundary(x.data) && on_boundary(y.data);
  const std::int64_t a_block = threads * (vectors ? vector_width<T> : 1);
  const auto kernel = vectors ? chain_kernel<vector_width<T>, T> : chain_kernel<1, T>;
  launch(name, stream, kernel, blocks_for("n", (x.size + a_block - 1) / a_block), threads, 0,
         x.data, y.data, x.size, a, b, static_cast<int>(k));
}

template <class T>
void require_chain(Row<const T> x, std::int64_t k, Row<T> y) {
  check_chain<T>(x, k, y);
  if (k > most_steps) {
    throw ArgumentError("k: got " + std::to_string(k) + "; allowed: up to " +
                        std::to_string(most_steps));
  }
}

}  // namespace

template <class T>
void multiply_add_chain_unfused(Stream stream, Row<const std::type_identity_t<T>> x, float a,
                                float b, std::int64_t k, Row<T> y) {
  require_chain<T>(x, k, y);
  if (x.size == 0) return;
  for (std::int64_t step = 0; step < k; ++step) {
    launch_chain<T>("step", stream, step == 0 ? x : Row<const T>(y), a, b, 1, y);
  }
}

template <class T>
void multiply_add_chain(Stream stream, Row<const std::type_identity_t<T>> x, float a, float b,
                        std::int64_t k, Row<T> y) {
  require_chain<T>(x, k, y);
  if (x.size == 0) return;
  launch_chain<T>("multiply_add_chain", stream, x, a, b, k, y);
}

#define OPBOOK_INSTANTIATE(T)                                                                    \
  template void multiply_add_chain<T>(Stream, Row<const T>, float, float, std::int64_t, Row<T>); \
  template void multiply_add_chain_unfused<T>(Stream, Row<const T>, float, float, std::int64_t,  \
                                              Row<T>);
OPBOOK_INSTANTIATE(float)
OPBOOK_INSTANTIATE(float16)
OPBOOK_INSTANTIATE(bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch02::gpu
