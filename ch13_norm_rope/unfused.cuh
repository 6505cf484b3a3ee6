#pragma once

// The kernels of unfused plans: one operation each, a thread for 16 bytes of the result (or for one
// element, where rows do not lie on 16-byte boundaries), everything through memory.

#include <algorithm>

#include "common/cuda/early.cuh"
#include "common/cuda/held_row.cuh"
#include "common/cuda/reduce.cuh"
#include "common/cuda/vector.cuh"

namespace opbook::ch13::gpu {

using namespace opbook::gpu;

/// y = f, element by element: f(row, column, values) fills `width` neighbours. A block covers
/// blockDim.y rows, or a piece of one.
template <int width, class T, class F>
__global__ void map_kernel(Rows<T> y, unsigned blocks_a_row, F f) {
  await_earlier_kernels();
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x / blocks_a_row) * blockDim.y + threadIdx.y;
  const std::int64_t chunk = blockIdx.x % blocks_a_row;
  const std::int64_t column = (chunk * blockDim.x + threadIdx.x) * width;
  if (row >= y.outer * y.inner || column >= y.cols) return;
  float values[width];
  f(row, column, values);
  store_floats(row_of(y, row) + column, values);
}

/// Queues map_kernel; `all_on_vectors`: whether what f reads allows 16 bytes at a time.
template <class T, class F>
void map(const char* name, Stream stream, Rows<T> y, bool all_on_vectors, F f) {
  const bool vectors = all_on_vectors && on_vectors(y);
  const std::int64_t items = vectors ? y.cols / vector_width<T> : y.cols;
  unsigned across = 1;  // threads along a row, the others of 256 along the rows
  while (across < 256 && across < items) across *= 2;
  const unsigned rows = 256 / across;
  const std::int64_t blocks_a_row = (items + across - 1) / across;
  const std::int64_t blocks = (y.rows() + rows - 1) / rows * blocks_a_row;
  const auto kernel = vectors ? map_kernel<vector_width<T>, T, F> : map_kernel<1, T, F>;
  launch_by_blocks(name, stream, kernel, kernel, blocks_for(name, blocks), dim3(across, rows), 0, y,
                   static_cast<unsigned>(blocks_a_row), f);
}

/// out[row] = the sum of a row's elements / divisor, a block a row.
template <class T>
__global__ void row_sum_kernel(Rows<const T> x, bool vectors, float divisor, float* out) {
  __shared__ float partial[32];
  const T* const row = row_of(x, blockIdx.x);
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i * vector_width<T> < x.cols; i += blockDim.x) {
    float v[vector_width<T>];
    unpack(vectors ? load_vector(row, static_cast<int>(i)) : load_elements(row, i, x.cols), v);
#pragma unroll
    for (const float value : v) sum += value;
  }
  sum = block_sum(sum, static_cast<int>(blockDim.x) / 32, partial);
  if (threadIdx.x == 0) out[blockIdx.x] = sum / divisor;
}

template <class T>
void row_sums(const char* name, Stream stream, Rows<const T> x, float divisor, Row<float> out) {
  launch(name, stream, row_sum_kernel<T>, blocks_for(name, x.rows()), 256, 0, x, on_vectors(x),
         divisor, out.data);
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
