// Fused: a row is read once into registers. The mean comes first and the variance from what is
// left, so that nothing cancels as with the sums of x and x^2. That takes two barriers a row;
// merging the moments of parts pairwise (Chan, Golub, LeVeque 1979) takes one, and was slower: 86 %
// of a copy, for its divisions follow one another.

#include "ch13_norm_rope/layer_norm.hpp"
#include "ch13_norm_rope/normalise.cuh"
#include "ch13_norm_rope/unfused.cuh"

namespace opbook::ch13::gpu {
namespace {

/// What is divided by the number of columns.
struct Columns {
  float n, one_over_n;

  explicit Columns(std::int64_t columns)
      : n(static_cast<float>(columns)), one_over_n(1.0f / static_cast<float>(columns)) {}

  /// sum / n: the product, and what it misses by (Markstein). A quotient that float32 has comes out
  /// exact: of a row of equal elements the mean is their value, and the variance 0.
  __device__ float mean(float sum) const {
    const float near = sum * one_over_n;
    return fmaf(-fmaf(near, n, -sum), one_over_n, near);
  }
  __device__ float rstd(float squares, float eps) const {
    return rsqrtf(fmaf(squares, one_over_n, eps));
  }
};

/// The sum of (v - mean)^2 over the first `valid` elements.
template <class T>
__device__ float sum_of_squares_from(const Vector<T>& vector, float mean, int valid) {
  float v[vector_width<T>];
  unpack(vector, v);
  float even = 0, odd = 0;
#pragma unroll
  for (int j = 0; j < vector_width<T>; j += 2) {
    const float d = v[j] - mean, e = v[j + 1] - mean;
    if (j < valid) even = fmaf(d, d, even);
    if (j + 1 < valid) odd = fmaf(e, e, odd);
  }
  return even + odd;
}

template <class T, int threads, int vectors, Case which>
__global__ __launch_bounds__(
    threads, blocks_per_sm<T>(which, threads,
                              vectors)) void layer_norm_kernel(GridRows<const T> x, const T* g,
                                                               const T* b, GridRows<T> y, int count,
                                                               Columns columns, float eps) {
  constexpr int width = vector_width<T>;
  using Held = HeldRow<T, threads, vectors>;
  __shared__ alignas(16) float sums[32], square_sums[32];
  T* const y_row = y.own();
  if constexpr (which == Case::few) await_earlier_kernels(x.own(), g, b, y_row);
  Held row;
  row.load(x.own(), count);
  // Of the longest rows there is no room for both.
  constexpr bool early = which == Case::few && threads * vectors <= 2048;
  const SharedRow<T, threads, vectors, early> gains(g, count), biases(b, count);
  if constexpr (which != Case::few) {
    const unsigned ahead = row_ahead<T, threads, vectors>();
    if (ahead < gridDim.x) bring_nearer(x.at(ahead), count * 16);
  }

  ElementSum<T> sum;
#pragma unroll
  for (int k = 0; k < vectors; ++k) sum.add(row.part[k]);  // beyond the row there are zeros
  const float mean = columns.mean(sum_over_block<which, Held>(sum, sums));
  row.stay_packed();
  float squares = 0;
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    if (row.index(k) < count) squares += sum_of_squares_from(row.part[k], mean, width);
  }
  const float rstd = columns.rstd(sum_over_block<which, Held>(squares, square_sums), eps);
  row.stay_packed();

#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    const int i = row.index(k);
    if constexpr (!early) asm volatile("" ::: "memory");  // see SharedRow
    const Vector<T> result = map_elements<T>(
        [&](float v, float g_j, float b_j) { return fmaf((v - mean) * rstd, g_j, b_j); },
        row.part[k], gains[k], biases[k]);
    if (i < count) store_vector(y_row, i, result);
  }
}

/// A row of any length on any boundary, read from the caches after the first time. A thread's
/// elements, and the order in which it takes them, are those of the kernel above: the same bits.
template <class T>
__global__ void any_layer_norm_kernel(Rows<const T> x, const T* g, const T* b, Rows<T> y,
                                      Columns columns, float eps) {
  constexpr int width = vector_width<T>;
  __shared__ float sums[32], square_sums[32];
  const T* const x_row = row_of(x, blockIdx.x);
  T* const y_row = row_of(y, blockIdx.x);
  const int warps = static_cast<int>(blockDim.x) / 32;
  ElementSum<T> sum;
  for (std::int64_t first = 0; first * width < x.cols; first += blockDim.x) {
    sum.add(load_elements(x_row, first + threadIdx.x, x.cols));
  }
  const float mean = columns.mean(block_sum(sum.share(), warps, sums));
  float squares = 0;
  for (std::int64_t i = threadIdx.x; i * width < x.cols; i += blockDim.x) {
    const auto valid = static_cast<int>(min(static_cast<std::int64_t>(width), x.cols - i * width));
    squares += sum_of_squares_from(load_elements(x_row, i, x.cols), mean, valid);
  }
  const float rstd = columns.rstd(block_sum(squares, warps, square_sums), eps);
  for (std::int64_t j = threadIdx.x; j < x.cols; j += blockDim.x) {
    const float scaled = (as_float(x_row[j]) - mean) * rstd;
    y_row[j] = rounded_to<T>(fmaf(scaled, as_float(g[j]), as_float(b[j])));
  }
}

/// mean and rstd of a row by its sums, a thread a row.
__global__ void stats_kernel(const float* sum_x, const float* sum_x2, float* mean, float* rstd,
                             std::int64_t m, float n, float eps) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= m) return;
  const float mu = sum_x[i] / n;
  mean[i] = mu;
  rstd[i] = 1.0f / sqrtf(__fadd_rn(__fadd_rn(sum_x2[i] / n, -__fmul_rn(mu, mu)), eps));
}

struct MultiplyAdd {
  __device__ float operator()(float v, float g, float b) const { return fmaf(v, g, b); }
};

}  // namespace

template <class T>
void layer_norm(Stream stream, Rows<const std::type_identity_t<T>> x,
                Row<const std::type_identity_t<T>> g, Row<const std::type_identity_t<T>> b,
                Rows<T> y, float eps) {
  check_layer_norm<T>(x, g, b, y, eps);
  if (x.rows() == 0 || x.cols == 0) return;
  const unsigned blocks = blocks_for("x", x.rows());
  const std::int64_t count = vectors_of<T>(x.cols);
  const Columns columns(x.cols);
  const RowGrid grid(x, y);
  const bool held = grid.fits() && on_vectors(x) && on_vectors(g) && on_vectors(b) &&
                    on_vectors(y) &&
                    launch_held<four_up_to<T>>(count, [&]<int threads, int vectors>() {
                      const auto usual = layer_norm_kernel<T, threads, vectors, Case::usual>;
                      launch_case("layer_norm", stream, true, grid.blocks(), threads, 0, usual,
                                  usual, layer_norm_kernel<T, threads, vectors, Case::few>, grid(x),
                                  g.data, b.data, grid(y), static_cast<int>(count), columns, eps);
                    });
  if (!held) {
    launch("layer_norm", stream, any_layer_norm_kernel<T>, blocks,
           row_shape<four_up_to<T>>(count).threads, 0, x, g.data, b.data, y, columns, eps);
  }
}

template <class T>
void layer_norm_unfused(Stream stream, Rows<const std::type_identity_t<T>> x,
                        Row<const std::type_identity_t<T>> g, Row<const std::type_identity_t<T>> b,
                        Rows<T> y, const LayerNormIntermediates<T>& intermediates, float eps) {
  check_layer_norm<T>(x, g, b, y, eps);
  check_intermediates(intermediates, x.rows(), x.cols);
  if (x.rows() == 0 || x.cols == 0) return;
  const Rows<T> x2 = intermediates.x2, centered = intermediates.centered;
  const Rows<T> scaled = intermediates.scaled;
  const Row<float> sum_x = intermediates.sum_x, sum_x2 = intermediates.sum_x2;
  const Row<float> mean = intermediates.mean, rstd = intermediates.rstd;
  const std::int64_t m = x.rows();

  map("x2", stream, x2, on_vectors(x), OfMatrix<T, Square>{x, {}});
  row_sums<T>("sum_x", stream, x, 1.0f, sum_x);
  row_sums<T>("sum_x2", stream, x2, 1.0f, sum_x2);
  launch("stats", stream, stats_kernel, blocks_for("x", (m + 255) / 256), 256, 0, sum_x.data,
         sum_x2.data, mean.data, rstd.data, m, static_cast<float>(x.cols), eps);
  map("centered", stream, centered, on_vectors(x),
      OfMatrixAndRowValue<T, Subtract>{x, mean.data, {}});
  map("scaled", stream, scaled, on_vectors(centered),
      OfMatrixAndRowValue<T, Multiply>{centered, rstd.data, {}});
  map("y", stream, y, on_vectors(scaled) && on_vectors(g) && on_vectors(b),
      OfMatrixAndColumns<T, MultiplyAdd>{scaled, g.data, b.data, {}});
}

#define OPBOOK_INSTANTIATE(T)                                                                     \
  template void layer_norm<T>(Stream, Rows<const T>, Row<const T>, Row<const T>, Rows<T>, float); \
  template void layer_norm_unfused<T>(Stream, Rows<const T>, Row<const T>, Row<const T>, Rows<T>, \
                                      const LayerNormIntermediates<T>&, float);
OPBOOK_INSTANTIATE(float)
OPBOOK_INSTANTIATE(float16)
OPBOOK_INSTANTIATE(bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::gpu
