// rms_norm step by step; the last step is rms_norm.cu.

#include "ch13_norm_rope/steps.cuh"

namespace opbook::ch13::gpu {
namespace {

/// naive: a thread a row, as on a CPU. The 32 threads of a warp read 32 rows, and so with each load
/// 32 lines of memory for an element of each.
template <class T>
__global__ void naive_kernel(const T* x, const T* w, T* y, std::int64_t m, int n, float eps) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= m) return;
  const T* const x_row = x + i * n;
  CompensatedSquares squares;
  for (int j = 0; j < n; ++j) squares.add(as_float(x_row[j]));
  const float rstd = rstd_of(squares.sum(), n, eps);
  for (int j = 0; j < n; ++j) y[i * n + j] = normalised(x_row[j], w[j], rstd);
}

/// block: the threads of a block share a row. A warp reads neighbouring elements, all of a line at
/// once; what it reads again for y is still in a cache.
template <class T>
__global__ void block_kernel(const T* x, const T* w, T* y, int n, float eps) {
  const T* const x_row = x + std::int64_t{blockIdx.x} * n;
  T* const y_row = y + std::int64_t{blockIdx.x} * n;
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  float sum = 0;
  for (int j = first; j < n; j += step) sum = fmaf(as_float(x_row[j]), as_float(x_row[j]), sum);
  const float rstd = rstd_of(sum_over_block(sum), n, eps);
  for (int j = first; j < n; j += step) y_row[j] = normalised(x_row[j], w[j], rstd);
}

/// vectorised: the same, 16 bytes at a time.
template <class T>
__global__ void vectorised_kernel(const T* x, const T* w, T* y, int n, float eps) {
  const T* const x_row = x + std::int64_t{blockIdx.x} * n;
  T* const y_row = y + std::int64_t{blockIdx.x} * n;
  const int count = n / vector_width<T>;
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  float sum = 0;
  for (int i = first; i < count; i += step) sum += squares_of(load_vector(x_row, i));
  const float rstd = rstd_of(sum_over_block(sum), n, eps);
  for (int i = first; i < count; i += step) {
    store_vector(y_row, i, normalised(load_vector(x_row, i), load_vector(w, i), rstd));
  }
}

/// held: the row stays in registers, and all that a thread will need it asks for at the start: its
/// loads are in flight together, and none waits behind the sum.
template <class T>
__global__ __launch_bounds__(most_holders) void held_kernel(const T* x, const T* w, T* y, int n,
                                                            float eps) {
  T* const y_row = y + std::int64_t{blockIdx.x} * n;
  const int count = n / vector_width<T>;
  Held<T> row, weights;
  row.load(x + std::int64_t{blockIdx.x} * n, count);
  weights.load(w, count);
  const float rstd = rstd_of(sum_over_block(row.squares()), n, eps);
#pragma unroll
  for (int k = 0; k < held_vectors; ++k) {
    if (row.index(k) >= count) continue;
    store_vector(y_row, row.index(k), normalised(row.part[k], weights.part[k], rstd));
  }
}

}  // namespace

template <class T>
void rms_norm_step(Stream stream, RmsNormStep step, Rows<const std::type_identity_t<T>> x,
                   Row<const std::type_identity_t<T>> w, Rows<T> y, const RmsNormOptions& options) {
  check_rms_norm_step<T>(x, w, y, options);
  if (x.rows() == 0 || x.cols == 0) return;
  const std::int64_t m = x.rows();
  const unsigned blocks = blocks_for("x", m);
  const int n = static_cast<int>(x.cols);
  switch (step) {
    case RmsNormStep::naive:
      launch("naive", stream, naive_kernel<T>, (blocks + threads_of_rows - 1) / threads_of_rows,
             threads_of_rows, 0, x.data, w.data, y.data, m, n, options.eps);
      break;
    case RmsNormStep::block:
      launch("block", stream, block_kernel<T>, blocks, threads_of_a_row, 0, x.data, w.data, y.data,
             n, options.eps);
      break;
    case RmsNormStep::vectorised:
      launch("vectorised", stream, vectorised_kernel<T>, blocks, threads_of_a_row, 0, x.data,
             w.data, y.data, n, options.eps);
      break;
    case RmsNormStep::held:
      launch("held", stream, held_kernel<T>, blocks, holders(n / vector_width<T>), 0, x.data,
             w.data, y.data, n, options.eps);
      break;
  }
}

#define OPBOOK_INSTANTIATE(T)                                                               \
  template void rms_norm_step<T>(Stream, RmsNormStep, Rows<const T>, Row<const T>, Rows<T>, \
                                 const RmsNormOptions&);
OPBOOK_INSTANTIATE(float)
OPBOOK_INSTANTIATE(float16)
OPBOOK_INSTANTIATE(bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::gpu
