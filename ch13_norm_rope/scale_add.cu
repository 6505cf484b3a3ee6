// Fused: sixteen bytes of each operand a thread, one after the other through memory. Four loads a
// thread are no faster: what counts is the order in which the whole card asks for addresses.

#include "ch13_norm_rope/scale_add.hpp"
#include "ch13_norm_rope/unfused.cuh"

namespace opbook::ch13::gpu {
namespace {

constexpr int scale_add_threads = 128;

/// A thread for `width` neighbours.
template <int width, class T>
__global__ __launch_bounds__(scale_add_threads) void scale_add_kernel(const T* x, float a,
                                                                      const T* b, T* y,
                                                                      std::int64_t size) {
  const std::int64_t i =
      (static_cast<std::int64_t>(blockIdx.x) * scale_add_threads + threadIdx.x) * width;
  await_earlier_kernels(x + i, b + i, y + i);
  if (i >= size) return;
  float v[width], u[width];
  load_floats(x + i, v);
  load_floats(b + i, u);
#pragma unroll
  for (int j = 0; j < width; ++j) v[j] = fmaf(v[j], a, u[j]);
  store_floats(y + i, v);
}

struct Scale {
  float a;
  __device__ float operator()(float v) const { return v * a; }
};

}  // namespace

template <class T>
void scale_add(Stream stream, Row<const std::type_identity_t<T>> x, float a,
               Row<const std::type_identity_t<T>> b, Row<T> y) {
  check_scale_add<T>(x, b, y);
  if (x.size == 0) return;
  const bool vectors = on_vectors(x) && on_vectors(b) && on_vectors(y);
  const std::int64_t threads = x.size / (vectors ? vector_width<T> : 1);
  const std::int64_t blocks = (threads + scale_add_threads - 1) / scale_add_threads;
  const auto kernel = vectors ? scale_add_kernel<vector_width<T>, T> : scale_add_kernel<1, T>;
  launch_by_blocks("scale_add", stream, kernel, kernel, blocks_for("x", blocks), scale_add_threads,
                   0, x.data, a, b.data, y.data, x.size);
}

template <class T>
void scale_add_unfused(Stream stream, Row<const std::type_identity_t<T>> x, float a,
                       Row<const std::type_identity_t<T>> b, Row<T> y,
                       Row<std::type_identity_t<T>> t) {
  check_scale_add<T>(x, b, y);
  require_size("t", t, x.size);
  if (x.size == 0) return;
  const Row<const T> scaled = t;
  map("t", stream, one_row(t), on_vectors(x), OfMatrix<T, Scale>{one_row(x), {a}});
  map("y", stream, one_row(y), on_vectors(t) && on_vectors(b),
      OfMatrices<T, Add>{one_row(scaled), one_row(b), {}});
}

#define OPBOOK_INSTANTIATE(T)                                                    \
  template void scale_add<T>(Stream, Row<const T>, float, Row<const T>, Row<T>); \
  template void scale_add_unfused<T>(Stream, Row<const T>, float, Row<const T>, Row<T>, Row<T>);
OPBOOK_INSTANTIATE(float)
OPBOOK_INSTANTIATE(float16)
OPBOOK_INSTANTIATE(bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::gpu
