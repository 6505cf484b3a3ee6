// Fused: x + r is formed in registers as it arrives, written once as s, and normalised from there.

#include "ch13_norm_rope/add_rms_norm.hpp"
#include "ch13_norm_rope/normalise.cuh"
#include "ch13_norm_rope/unfused.cuh"

namespace opbook::ch13::gpu {
namespace {

template <class T, int threads, int vectors, Case which>
__global__ __launch_bounds__(
    threads, blocks_per_sm<T>(which, threads,
                              vectors)) void add_rms_norm_kernel(GridRows<const T> x,
                                                                 GridRows<const T> r, const T* w,
                                                                 GridRows<T> s, GridRows<T> y,
                                                                 int count, Normaliser normaliser) {
  __shared__ alignas(16) float partial[32];
  if constexpr (which == Case::few) await_earlier_kernels(x.own(), r.own(), w, s.own(), y.own());
  HeldRow<T, threads, vectors> row, residual;
  row.load(x.own(), count);
  residual.load(r.own(), count);
  const SharedRow<T, threads, vectors, which == Case::few> weights(w, count);
  if constexpr (which != Case::few) {
    const unsigned ahead = row_ahead<T, threads, vectors>();
    if (ahead < gridDim.x) {
      bring_nearer(x.at(ahead), count * 16);
      bring_nearer(r.at(ahead), count * 16);
    }
  }
#pragma unroll
  for (int k = 0; k < vectors; ++k) {
    row.part[k] =
        map_elements<T>([](float v, float u) { return v + u; }, row.part[k], residual.part[k]);
  }
  row.store(s.own(), count);
  const float rstd = normaliser.rstd(sum_of_squares<which>(row, partial));
  normalise_held<which>(row, weights, rstd, normaliser, [](int) {});
  row.store(y.own(), count);
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
  const RowGrid grid(x, r, s, y);
  const bool held =
      grid.fits() && on_vectors(x) && on_vectors(r) && on_vectors(w) && on_vectors(s) &&
      on_vectors(y) && launch_held<4096>(count, [&]<int threads, int vectors>() {
        launch_case("add_rms_norm", stream, normaliser.plain, grid.blocks(), threads, 0,
                    add_rms_norm_kernel<T, threads, vectors, Case::general>,
                    add_rms_norm_kernel<T, threads, vectors, Case::usual>,
                    add_rms_norm_kernel<T, threads, vectors, Case::few>, grid(x), grid(r), w.data,
                    grid(s), grid(y), static_cast<int>(count), normaliser);
      });
  if (!held) {
    launch("add_rms_norm", stream, any_add_rms_norm_kernel<T>, blocks,
           row_shape<4096>(count).threads, 0, x, r, w.data, s, y, normaliser);
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
