#pragma once

// The kernels of unfused plans: one operation each, a thread for 16 bytes of the result (or for one
// element, where rows do not lie on 16-byte boundaries), everything through memory.

#include <algorithm>

#include "common/cuda/held_row.cuh"
#include "common/cuda/launch.cuh"
#include "common/cuda/reduce.cuh"
#include "common/cuda/vector.cuh"

namespace opbook::ch13::gpu {

using namespace opbook::gpu;

/// y = f, element by element: f(row, column, values) fills `width` neighbours.
template <int width, class T, class F>
__global__ void map_kernel(Rows<T> y, unsigned blocks_a_row, F f) {
  const std::int64_t row = blockIdx.x / blocks_a_row;
  const std::int64_t chunk = blockIdx.x % blocks_a_row;
  const std::int64_t column = (chunk * blockDim.x + threadIdx.x) * width;
  if (column >= y.cols) return;
  float values[width];
  f(row, column, values);
  store_floats(row_of(y, row) + column, values);
}

/// Queues map_kernel; `on_vectors`: whether all that f reads allows 16 bytes at a time.
template <class T, class F>
void map(const char* name, Stream stream, Rows<T> y, bool all_on_vectors, F f) {
  const bool vectors = all_on_vectors && on_vectors(y);
  const std::int64_t items = vectors ? y.cols / vector_width<T> : y.cols;
  const std::int64_t threads = std::min<std::int64_t>(256, (items + 31) / 32 * 32);
  const std::int64_t blocks_a_row = (items + threads - 1) / threads;
  const unsigned blocks = blocks_for(name, y.rows() * blocks_a_row);
  const auto kernel = vectors ? map_kernel<vector_width<T>, T, F> : map_kernel<1, T, F>;
  launch(name, stream, kernel, blocks, static_cast<int>(threads), 0, y,
         static_cast<unsigned>(blocks_a_row), f);
}

/// out[row] = the sum of a row's elements / divisor, a block a row.
template <class T>
__global__ void row_sum_kernel(Rows<const T> x, float divisor, float* out) {
  __shared__ float partial[32];
  const T* const row = row_of(x, blockIdx.x);
  float sum = 0;
  for (std::int64_t j = threadIdx.x; j < x.cols; j += blockDim.x) sum += as_float(row[j]);
  sum = block_sum(sum, static_cast<int>(blockDim.x) / 32, partial);
  if (threadIdx.x == 0) out[blockIdx.x] = sum / divisor;
}

template <class T>
void row_sums(const char* name, Stream stream, Rows<const T> x, float divisor, Row<float> out) {
  launch(name, stream, row_sum_kernel<T>, blocks_for(name, x.rows()), 256, 0, x, divisor, out.data);
}

/// f(row, column, values) of one or two operands, each a row of a matrix, a vector along the
/// columns or a vector along the rows.
template <class T, class Op>
struct OfMatrix {
  Rows<const T> x;
  Op op;
  template <int width>
  __device__ void operator()(std::int64_t row, std::int64_t column, float (&v)[width]) const {
    load_floats(row_of(x, row) + column, v);
#pragma unroll
    for (int j = 0; j < width; ++j) v[j] = op(v[j]);
  }
};
template <class T, class Op>
struct OfMatrices {
  Rows<const T> x, z;
  Op op;
  template <int width>
  __device__ void operator()(std::int64_t row, std::int64_t column, float (&v)[width]) const {
    float u[width];
    load_floats(row_of(x, row) + column, v);
    load_floats(row_of(z, row) + column, u);
#pragma unroll
    for (int j = 0; j < width; ++j) v[j] = op(v[j], u[j]);
  }
};
template <class T, class Op>
struct OfMatrixAndRowValue {
  Rows<const T> x;
  const float* by_row;
  Op op;
  template <int width>
  __device__ void operator()(std::int64_t row, std::int64_t column, float (&v)[width]) const {
    const float s = by_row[row];
    load_floats(row_of(x, row) + column, v);
#pragma unroll
    for (int j = 0; j < width; ++j) v[j] = op(v[j], s);
  }
};
template <class T, class Op>
struct OfMatrixAndColumns {
  Rows<const T> x;
  const T *g, *b;  // b may be absent
  Op op;
  template <int width>
  __device__ void operator()(std::int64_t row, std::int64_t column, float (&v)[width]) const {
    float gain[width], bias[width] = {};
    load_floats(row_of(x, row) + column, v);
    load_floats(g + column, gain);
    if (b != nullptr) load_floats(b + column, bias);
#pragma unroll
    for (int j = 0; j < width; ++j) v[j] = op(v[j], gain[j], bias[j]);
  }
};

struct Square {
  __device__ float operator()(float v) const { return v * v; }
};
struct Add {
  __device__ float operator()(float v, float u) const { return v + u; }
};
struct Subtract {
  __device__ float operator()(float v, float u) const { return v - u; }
};
struct Multiply {
  __device__ float operator()(float v, float u) const { return v * u; }
};

}  // namespace opbook::ch13::gpu
