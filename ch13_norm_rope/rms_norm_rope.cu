// Fused: rms_norm's kernel, its last columns turned before they are written. Nothing of the
// intermediate row reaches memory.

#include "ch13_norm_rope/rms_norm_rope.hpp"
#include "ch13_norm_rope/turn.cuh"
#include "ch13_norm_rope/unfused.cuh"

namespace opbook::ch13::gpu {
namespace {

template <class T, int threads, int vectors, Case which>
__global__ __launch_bounds__(
    threads,
    turning_blocks_per_sm<T>(which, threads,
                             vectors)) void rms_norm_rope_kernel(GridRows<const T> x, const T* w,
                                                                 AngleRows<T> tables, GridRows<T> y,
                                                                 int count, Normaliser normaliser,
                                                                 Tail tail) {
  extern __shared__ uint4 shared[];
  __shared__ alignas(16) float partial[32];
  if constexpr (which == Case::few) await_earlier_kernels(x.own(), w, y.own());
  HeldRow<T, threads, vectors> row;
  row.load(x.own(), count);
  const SharedRow<T, threads, vectors, which == Case::few> weights(w, count);
  const unsigned ahead = row_ahead<T, threads, vectors>();
  if constexpr (which != Case::few) {
    if (ahead < gridDim.x) bring_nearer(x.at(ahead), count * 16);
  }
  TailTurn<decltype(row), is_usual(which)> tail_turn(tables, tail);
  if constexpr (which != Case::few) tail_turn.bring_nearer(ahead);
  const float rstd = normaliser.rstd(sum_of_squares<which>(row, partial));
  normalise_held<which>(row, weights, rstd, normaliser, [](int) {});
  tail_turn.turn(row, shared);
  row.store(y.own(), count);
}

template <class T>
__global__ void any_rms_norm_rope_kernel(Rows<const T> x, const T* w, DeviceTables<T> tables,
                                         Rows<T> y, Normaliser normaliser) {
  __shared__ float partial[32];
  const T* const x_row = row_of(x, blockIdx.x);
  T* const y_row = row_of(y, blockIdx.x);
  const float rstd = normaliser.rstd(any_sum_of_squares(x_row, x.cols, partial));
  for_each_turned(x_row, w, x.cols, tables.half, rstd, normaliser, Angles<T>(tables, blockIdx.x),
                  [&](std::int64_t j, T value) { y_row[j] = value; });
}

}  // namespace

template <class T>
void rms_norm_rope(Stream stream, Rows<const std::type_identity_t<T>> x,
                   Row<const std::type_identity_t<T>> w,
                   const RopeTables<std::type_identity_t<T>>& tables, Rows<T> y,
                   const RmsNormOptions& options) {
  check_norm_rope<T>(x, w, tables, options);
  check_norm_rope_output<T>("y", y, x, w, tables);
  if (x.rows() == 0 || x.cols == 0) return;
  const unsigned blocks = blocks_for("x", x.rows());
  const std::int64_t count = vectors_of<T>(x.cols), shared = turn_bytes(tables);
  const Normaliser normaliser(x.cols, options);
  const DeviceTables<T> device_tables(tables);
  const RowGrid grid(x, y);
  const bool held =
      grid.fits() && AngleRows<T>::fit(device_tables) && on_vectors(x) && on_vectors(w) &&
      on_vectors(y) && pairs_on_vectors(tables, x.cols) && shared <= most_turn_bytes &&
      launch_held(count, [&]<int threads, int vectors>() {
        const auto tail_of = [&](int held) { return Tail::of(tables, x.cols, threads, held); };
        if (normaliser.plain && grid.rows() > few_blocks &&
            launch_trimmed<threads, vectors>(count, [&]<int held>() {
              if (!tail_of(held).by_shuffle) return false;
              launch("rms_norm_rope", stream, rms_norm_rope_kernel<T, threads, held, Case::usual>,
                     grid.blocks(), threads, 0, grid(x), w.data, AngleRows<T>(device_tables),
                     grid(y), static_cast<int>(count), normaliser, tail_of(held));
              return true;
            })) {
          return;
        }
        const Tail tail = tail_of(vectors);
        launch_case("rms_norm_rope", stream, normaliser.plain && tail.by_shuffle, grid.blocks(),
                    threads, shared, rms_norm_rope_kernel<T, threads, vectors, Case::general>,
                    rms_norm_rope_kernel<T, threads, vectors, Case::usual>,
                    rms_norm_rope_kernel<T, threads, vectors, Case::few>, grid(x), w.data,
                    AngleRows<T>(device_tables), grid(y), static_cast<int>(count), normaliser,
                    tail);
      });
  if (!held) {
    launch("rms_norm_rope", stream, any_rms_norm_rope_kernel<T>, blocks, row_shape(count).threads,
           0, x, w.data, device_tables, y, normaliser);
  }
}

template <class T>
void rms_norm_rope_unfused(Stream stream, Rows<const std::type_identity_t<T>> x,
                           Row<const std::type_identity_t<T>> w,
                           const RopeTables<std::type_identity_t<T>>& tables, Rows<T> y,
                           Rows<std::type_identity_t<T>> normed, const RmsNormOptions& options) {
  check_norm_rope<T>(x, w, tables, options);
  check_norm_rope_output<T>("y", y, x, w, tables);
  check_norm_rope_output<T>("normed", normed, x, w, tables);
  require_no_overlap("y", y, "normed", normed);
  if (x.rows() == 0 || x.cols == 0) return;
  rms_norm<T>(stream, x, w, normed, options);
  map("rope", stream, y, on_vectors(normed) && pairs_on_vectors(tables, x.cols),
      TurnTail<T>{normed, DeviceTables<T>(tables)});
}

#define OPBOOK_INSTANTIATE(T)                                                               \
  template void rms_norm_rope<T>(Stream, Rows<const T>, Row<const T>, const RopeTables<T>&, \
                                 Rows<T>, const RmsNormOptions&);                           \
  template void rms_norm_rope_unfused<T>(Stream, Rows<const T>, Row<const T>,               \
                                         const RopeTables<T>&, Rows<T>, Rows<T>,            \
                                         const RmsNormOptions&);
OPBOOK_INSTANTIATE(float)
OPBOOK_INSTANTIATE(float16)
OPBOOK_INSTANTIATE(bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::gpu
