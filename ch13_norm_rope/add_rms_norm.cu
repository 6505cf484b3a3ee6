// Fused: x + r is formed in registers as it arrives, written once as s, and normalised from there.

#include "ch13_norm_rope/add_rms_norm.hpp"
#include "ch13_norm_rope/normalise.cuh"
#include "ch13_norm_rope/unfused.cuh"

namespace opbook::ch13::gpu {
namespace {

template <class T>
__device__ Vector<T> sum_of(const Vector<T>& x, const Vector<T>& r) {
  float v[vector_width<T>], residual[vector_width<T>];
  unpack(x, v);
  unpack(r, residual);
#pragma unroll
  for (int j = 0; j < vector_width<T>; ++j) v[j] += residual[j];
  return pack<T>(v);
}

template <class T, int threads, int vectors>
__global__ __launch_bounds__(threads, blocks_per_sm(threads, vectors)) void add_rms_norm_kernel(
    Rows<const T> x, Rows<const T> r, const T* w, Rows<T> s, Rows<T> y, Normaliser normaliser) {
  __shared__ float partial[32];
  const int count = static_cast<int>(x.cols / vector_width<T>);
  HeldRow<T, threads, vectors> row, residual;
  row.load(row_of(x, blockIdx.x), count);
  residual.load(row_of(r, blockIdx.x), count);
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    row.part[k] = sum_of(row.part[k], residual.part[k]);
  }
  row.store(row_of(s, blockIdx.x), count);
  const float rstd = normaliser.rstd(block_sum(row_squares(row), threads / 32, partial));
  normalise_held(row, w, count, rstd, normaliser);
  row.store(row_of(y, blockIdx.x), count);
}

/// A row of any length on any boundary: s is read back from the caches.
template <class T>
__global__ void any_add_rms_norm_kernel(Rows<const T> x, Rows<const T> r, const T* w, Rows<T> s,
                                        Rows<T> y, Normaliser normaliser) {
  __shared__ float partial[32];
  const T *const x_row = row_of(x, blockIdx.x), *const r_row = row_of(r, blockIdx.x);
  T *const s_row = row_of(s, blockIdx.x), *const y_row = row_of(y, blockIdx.x);
  for (std::int64_t j = threadIdx.x; j < x.cols; j += blockDim.x) {
    s_row[j] = rounded_to<T>(as_float(x_row[j]) + as_float(r_row[j]));
  }
  __syncthreads();
  const float rstd = normaliser.rstd(any_sum_of_squares<T>(s_row, x.cols, partial));
  for (std::int64_t j = threadIdx.x; j < x.cols; j += blockDim.x) {
    y_row[j] = rounded_to<T>(normaliser.apply<T>(as_float(s_row[j]), as_float(w[j]), rstd));
  }
}

}  // namespace

template <class T>
void add_rms_norm(Stream stream, Rows<const std::type_identity_t<T>> x,
                  Rows<const std::type_identity_t<T>> r, Row<const std::type_identity_t<T>> w,
                  Rows<std::type_identity_t<T>> s, Rows<T> y, const RmsNormOptions& options) {
  check_add_rms_norm<T>(x, r, w, s, y, options);
  if (x.rows() == 0 || x.cols == 0) return;
  const unsigned blocks = blocks_for("x", x.rows());
  const std::int64_t count = vectors_of<T>(x.cols);
  const Normaliser normaliser(x.cols, options);
  const bool held = on_vectors(x) && on_vectors(r) && on_vectors(w) && on_vectors(s) &&
                    on_vectors(y) && launch_held(count, [&]<int threads, int vectors>() {
                      launch("add_rms_norm", stream, add_rms_norm_kernel<T, threads, vectors>,
                             blocks, threads, 0, x, r, w.data, s, y, normaliser);
                    });
  if (!held) {
    launch("add_rms_norm", stream, any_add_rms_norm_kernel<T>, blocks, threads_for(count), 0, x, r,
           w.data, s, y, normaliser);
  }
}

template <class T>
void add_rms_norm_unfused(Stream stream, Rows<const std::type_identity_t<T>> x,
                          Rows<const std::type_identity_t<T>> r,
                          Row<const std::type_identity_t<T>> w, Rows<std::type_identity_t<T>> s,
                          Rows<T> y, const RmsNormIntermediates<T>& intermediates,
                          const RmsNormOptions& options) {
  check_add_rms_norm<T>(x, r, w, s, y, options);
  if (x.rows() == 0 || x.cols == 0) return;
  map("add", stream, s, on_vectors(x) && on_vectors(r), OfMatrices<T, Add>{x, r, {}});
  rms_norm_unfused<T>(stream, s, w, y, intermediates, options);
}

#define OPBOOK_INSTANTIATE(T)                                                                \
  template void add_rms_norm<T>(Stream, Rows<const T>, Rows<const T>, Row<const T>, Rows<T>, \
                                Rows<T>, const RmsNormOptions&);                             \
  template void add_rms_norm_unfused<T>(Stream, Rows<const T>, Rows<const T>, Row<const T>,  \
                                        Rows<T>, Rows<T>, const RmsNormIntermediates<T>&,    \
                                        const RmsNormOptions&);
OPBOOK_INSTANTIATE(float)
OPBOOK_INSTANTIATE(float16)
OPBOOK_INSTANTIATE(bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::gpu
