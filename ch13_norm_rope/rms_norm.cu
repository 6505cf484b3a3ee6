// Fused: a row is read once into registers, its squares are summed over the block, and it is
// written once. A block a row, in the order in which the card hands out blocks: neighbouring rows
// are in flight together, and memory sees one stream of addresses.

#include "ch13_norm_rope/normalise.cuh"
#include "ch13_norm_rope/rms_norm.hpp"
#include "ch13_norm_rope/unfused.cuh"

namespace opbook::ch13::gpu {
namespace {

template <class T, int threads, int vectors, Case which>
__global__ __launch_bounds__(
    threads,
    blocks_per_sm<T>(which, threads, vectors)) void rms_norm_kernel(GridRows<const T> x, const T* w,
                                                                    GridRows<T> y, int count,
                                                                    Normaliser normaliser) {
  __shared__ alignas(16) float partial[32];
  if constexpr (which == Case::few) await_earlier_kernels(x.own(), w, y.own());
  HeldRow<T, threads, vectors> row;
  row.load(x.own(), count);
  const SharedRow<T, threads, vectors, which == Case::few> weights(w, count);
  if constexpr (which != Case::few) {
    const unsigned ahead = row_ahead<T, threads, vectors>();
    if (ahead < gridDim.x) bring_nearer(x.at(ahead), count * 16);
  }
  const float rstd = normaliser.rstd(sum_of_squares<which>(row, partial));
  T* const y_row = y.own();
  normalise_held<which>(row, weights, rstd, normaliser, [&](int k) {
    if (row.index(k) < count) store_vector(y_row, row.index(k), row.part[k]);
  });
}

/// A row of any length on any boundary: read twice, the second time from the caches.
template <class T>
__global__ void any_rms_norm_kernel(Rows<const T> x, const T* w, Rows<T> y, Normaliser normaliser) {
  __shared__ float partial[32];
  const T* const x_row = row_of(x, blockIdx.x);
  T* const y_row = row_of(y, blockIdx.x);
  const float rstd = normaliser.rstd(any_sum_of_squares(x_row, x.cols, partial));
  for (std::int64_t j = threadIdx.x; j < x.cols; j += blockDim.x) {
    y_row[j] = rounded_to<T>(normaliser.apply<T>(as_float(x_row[j]), as_float(w[j]), rstd));
  }
}

struct AddEps {
  float eps;
  __device__ float operator()(float v) const { return v + eps; }
};
struct ReciprocalRoot {
  __device__ float operator()(float v) const { return 1.0f / sqrtf(v); }
};
struct Weigh {
  float offset;  // 0 or 1
  __device__ float operator()(float v, float w, float) const {
    return v * (offset == 0.0f ? w : offset + w);
  }
};

}  // namespace

template <class T>
void rms_norm(Stream stream, Rows<const std::type_identity_t<T>> x,
              Row<const std::type_identity_t<T>> w, Rows<T> y, const RmsNormOptions& options) {
  check_rms_norm<T>(x, w, y, options);
  if (x.rows() == 0 || x.cols == 0) return;
  const unsigned blocks = blocks_for("x", x.rows());
  const std::int64_t count = vectors_of<T>(x.cols);
  const Normaliser normaliser(x.cols, options);
  const RowGrid grid(x, y);
  const bool held = grid.fits() && on_vectors(x) && on_vectors(w) && on_vectors(y) &&
                    launch_held<four_up_to<T>>(count, [&]<int threads, int vectors>() {
                      launch_case("rms_norm", stream, normaliser.plain, grid.blocks(), threads, 0,
                                  rms_norm_kernel<T, threads, vectors, Case::general>,
                                  rms_norm_kernel<T, threads, vectors, Case::usual>,
                                  rms_norm_kernel<T, threads, vectors, Case::few>, grid(x), w.data,
                                  grid(y), static_cast<int>(count), normaliser);
                    });
  if (!held) {
    launch("rms_norm", stream, any_rms_norm_kernel<T>, blocks,
           row_shape<four_up_to<T>>(count).threads, 0, x, w.data, y, normaliser);
  }
}

template <class T>
void rms_norm_unfused(Stream stream, Rows<const std::type_identity_t<T>> x,
                      Row<const std::type_identity_t<T>> w, Rows<T> y,
                      const RmsNormIntermediates<T>& intermediates, const RmsNormOptions& options) {
  check_rms_norm<T>(x, w, y, options);
  check_intermediates(intermediates, x.rows(), x.cols);
  if (x.rows() == 0 || x.cols == 0) return;
  const Rows<T> x2 = intermediates.x2, scaled = intermediates.scaled;
  const Row<float> mean = intermediates.mean, mean_eps = intermediates.mean_eps;
  const Row<float> rstd = intermediates.rstd;
  map("x2", stream, x2, on_vectors(x), OfMatrix<T, Square>{x, {}});
  row_sums<T>("mean", stream, x2, static_cast<float>(x.cols), mean);
  map("mean_eps", stream, one_row(mean_eps), on_vectors(mean),
      OfMatrix<float, AddEps>{one_row(mean), {options.eps}});
  map("rstd", stream, one_row(rstd), on_vectors(mean_eps),
      OfMatrix<float, ReciprocalRoot>{one_row(mean_eps), {}});
  map("scaled", stream, scaled, on_vectors(x), OfMatrixAndRowValue<T, Multiply>{x, rstd.data, {}});
  map("y", stream, y, on_vectors(scaled) && on_vectors(w),
      OfMatrixAndColumns<T, Weigh>{
          scaled, w.data, nullptr, {static_cast<float>(options.weight_offset)}});
}

#define OPBOOK_INSTANTIATE(T)                                                                     \
  template void rms_norm<T>(Stream, Rows<const T>, Row<const T>, Rows<T>, const RmsNormOptions&); \
  template void rms_norm_unfused<T>(Stream, Rows<const T>, Row<const T>, Rows<T>,                 \
                                    const RmsNormIntermediates<T>&, const RmsNormOptions&);
OPBOOK_INSTANTIATE(float)
OPBOOK_INSTANTIATE(float16)
OPBOOK_INSTANTIATE(bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::gpu
