// Fused: rms_norm_rope's row stays in registers, rounded as y is, until its largest magnitude is
// known; then it leaves as codes. The third roof decides here: 3 bytes an element leave 21
// instructions of a lane for each, all included. Hence comparisons of two bit patterns at once, and
// quotients in two or three instructions.

#include <bit>

#include "ch13_norm_rope/quantise_held.cuh"
#include "ch13_norm_rope/rms_norm_rope_quant.hpp"
#include "ch13_norm_rope/rms_norm_rope_quant_in_turn.cuh"
#include "ch13_norm_rope/turn.cuh"
#include "ch13_norm_rope/unfused.cuh"
#include "common/cuda/quantise.cuh"

namespace opbook::ch13::gpu {
namespace {

/// What comes out, as a kernel takes it.
template <class T>
struct DeviceQuantised {
  Rows<float8_e4m3fn> q;
  Rows<float> scale;
  Rows<T> y;
  std::int64_t group_size;  ///< columns that share a scale; all of them: one scale a row
};

/// Whether a block asks the L2 for a later row. Of rows of five to eight vectors a thread enough
/// are under way without it where six blocks and more fit an SM: at 16384 x 8192 it cost 2 %.
__host__ __device__ constexpr bool asks_ahead(Case which, int threads, int vectors) {
  return which != Case::few && (vectors <= 4 || threads > 128);
}

/// Blocks that must fit an SM at once: scales by groups take some registers more. Of seven and
/// eight vectors a thread those spilled, but with 256 threads; in the general case those of float32
/// did.
template <class T>
__host__ __device__ constexpr int quantising_blocks_per_sm(Case which, int threads, int vectors) {
  const int blocks = blocks_per_sm<T>(which, threads, vectors);
  const bool one_less =
      which == Case::grouped ? threads != 256 : which == Case::general && sizeof(T) == 4;
  return vectors >= 7 && one_less && blocks > 1 ? blocks - 1 : blocks;
}

template <class T, int threads, int vectors, Case which>
__global__ __launch_bounds__(
    threads, quantising_blocks_per_sm<T>(
                 which, threads,
                 vectors)) void rms_norm_rope_quant_kernel(GridRows<const T> x, const T* w,
                                                           AngleRows<T> tables,
                                                           GridQuantised<T> out, int count,
                                                           Normaliser normaliser, Tail tail) {
  extern __shared__ uint4 shared[];
  __shared__ alignas(16) float partial[32];
  if constexpr (which == Case::few) await_earlier_kernels(x.own(), w, out.q.own());
  HeldRow<T, threads, vectors> row;
  row.load(x.own(), count);
  const SharedRow<T, threads, vectors, which == Case::few> weights(w, count);
  TailTurn<decltype(row), is_usual(which)> tail_turn(tables, tail);
  if constexpr (asks_ahead(which, threads, vectors)) {
    const unsigned ahead = row_ahead<T, threads, vectors>();
    if (ahead < gridDim.x) bring_nearer(x.at(ahead), count * 16);
    tail_turn.bring_nearer(ahead);
  }
  const float rstd = normaliser.rstd(sum_of_squares<which>(row, partial));
  normalise_held<which>(row, weights, rstd, normaliser, [](int) {});
  tail_turn.turn(row, shared);
  constexpr bool codes_alone = which == Case::usual || which == Case::few;
  if (!codes_alone && out.y.data != nullptr) row.store(out.y.own(), count);
  if (codes_alone || out.log2_lanes < 0) {
    quantise_row<is_usual(which)>(row, count, out.q.own(), out.scale.own());
  } else if constexpr (which == Case::grouped) {
    quantise_wide_groups(row, count, out);
  } else {
    quantise_groups(row, count, out);
  }
}

/// Puts the pattern of |value| into the scale of its group, if it is larger. Integers, so that the
/// order in which threads come does not matter.
template <class T>
__device__ void raise_scale(float* scales, std::int64_t group, T value) {
  atomicMax(reinterpret_cast<std::uint32_t*>(scales) + group,
            __float_as_uint(as_float(value)) & 0x7FFFFFFFu);
}

/// The largest magnitudes, kept in place of the scales, become the scales.
__device__ inline void finish_scales(float* scales, std::int64_t groups) {
  __syncthreads();
  for (std::int64_t g = threadIdx.x; g < groups; g += blockDim.x) {
    scales[g] = scale_of(__float_as_uint(scales[g]));
  }
  __syncthreads();
}
__device__ inline void clear_scales(float* scales, std::int64_t groups) {
  for (std::int64_t g = threadIdx.x; g < groups; g += blockDim.x) scales[g] = 0.0f;
  __syncthreads();
}

template <class T>
__device__ float8_e4m3fn code_of(T value, float scale) {
  return {static_cast<std::uint8_t>(pack_e4m3(Quotient<T>(scale)(as_float(value)), 0.0f))};
}

/// A row of any length, on any boundary, in groups of any size: its values are formed once for the
/// scales and once more for the codes.
template <class T>
__global__ void any_rms_norm_rope_quant_kernel(Rows<const T> x, const T* w, DeviceTables<T> tables,
                                               DeviceQuantised<T> out, Normaliser normaliser) {
  __shared__ float partial[32];
  const T* const x_row = row_of(x, blockIdx.x);
  float* const scales = row_of(out.scale, blockIdx.x);
  float8_e4m3fn* const q_row = row_of(out.q, blockIdx.x);
  const Angles<T> angles(tables, blockIdx.x);
  const float rstd = normaliser.rstd(any_sum_of_squares(x_row, x.cols, partial));
  const auto for_each = [&](auto f) {
    for_each_turned(x_row, w, x.cols, tables.half, rstd, normaliser, angles, f);
  };
  clear_scales(scales, out.scale.cols);
  for_each([&](std::int64_t j, T value) { raise_scale(scales, j / out.group_size, value); });
  finish_scales(scales, out.scale.cols);
  T* const y_row = out.y.data != nullptr ? row_of(out.y, blockIdx.x) : nullptr;
  for_each([&](std::int64_t j, T value) {
    if (y_row != nullptr) y_row[j] = value;
    q_row[j] = code_of(value, scales[j / out.group_size]);
  });
}

/// The unfused plan's last kernel: a row of y, twice through memory.
template <class T>
__global__ void quant_kernel(Rows<const T> y, DeviceQuantised<T> out) {
  const T* const y_row = row_of(y, blockIdx.x);
  float* const scales = row_of(out.scale, blockIdx.x);
  float8_e4m3fn* const q_row = row_of(out.q, blockIdx.x);
  clear_scales(scales, out.scale.cols);
  // A warp takes a group at a time: one attempt to raise its scale for 32 of its columns.
  const std::int64_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const std::int64_t chunk = out.scale.cols > 1 ? out.group_size : 1024;
  for (std::int64_t first = warp * chunk; first < y.cols; first += warps * chunk) {
    std::uint32_t bits = 0;
    for (std::int64_t j = first + lane; j < min(first + chunk, y.cols); j += 32) {
      bits = max(bits, __float_as_uint(as_float(y_row[j])) & 0x7FFFFFFFu);
    }
    bits = warp_max(bits);
    if (lane == 0) {
      atomicMax(reinterpret_cast<std::uint32_t*>(scales) + first / out.group_size, bits);
    }
  }
  finish_scales(scales, out.scale.cols);
  for (std::int64_t j = threadIdx.x; j < y.cols; j += blockDim.x) {
    q_row[j] = code_of(y_row[j], scales[j / out.group_size]);
  }
}

template <class T>
DeviceQuantised<T> on_device(const Quantised<T>& result, std::int64_t cols,
                             std::int64_t group_size) {
  return {result.q, result.scale, result.y, group_size > 0 ? group_size : cols};
}

/// Whether codes can be stored a vector at a time, and groups are whole lanes of a warp.
template <class T>
bool fits_lanes(const DeviceQuantised<T>& out, std::int64_t cols) {
  constexpr int width = vector_width<T>;
  const Rows<float8_e4m3fn>& q = out.q;
  const bool codes = reinterpret_cast<std::uintptr_t>(q.data) % width == 0 &&
                     (q.outer <= 1 || q.outer_stride % width == 0) &&
                     (q.inner <= 1 || q.inner_stride % width == 0);
  const std::int64_t lanes = out.group_size / width;
  const bool groups =
      out.group_size == cols || (out.group_size % width == 0 && lanes <= 32 &&
                                 std::has_single_bit(static_cast<std::uint64_t>(lanes)));
  return codes && groups && (out.y.data == nullptr || on_vectors(out.y));
}

}  // namespace

template <class T>
void rms_norm_rope_quant(Stream stream, Rows<const std::type_identity_t<T>> x,
                         Row<const std::type_identity_t<T>> w,
                         const RopeTables<std::type_identity_t<T>>& tables,
                         const Quantised<T>& result, const RmsNormRopeQuantOptions& options) {
  check_norm_rope_quant<T>(x, w, tables, result, options);
  if (x.rows() == 0 || x.cols == 0) return;
  const unsigned blocks = blocks_for("x", x.rows());
  const std::int64_t count = vectors_of<T>(x.cols), shared = turn_bytes(tables);
  const Normaliser normaliser(x.cols, options.norm);
  const DeviceTables<T> device_tables(tables);
  const DeviceQuantised<T> out = on_device(result, x.cols, options.group_size);
  const RowGrid grid(x, result.q, result.scale, result.y);
  const bool held =
      grid.fits() && AngleRows<T>::fit(device_tables) && on_vectors(x) && on_vectors(w) &&
      pairs_on_vectors(tables, x.cols) && fits_lanes(out, x.cols) && shared <= most_turn_bytes &&
      launch_held<512>(count, [&]<int threads, int vectors>() {
        const bool one_scale = out.group_size == x.cols;
        const auto lanes = static_cast<unsigned>(out.group_size / vector_width<T>);
        const bool codes_alone = one_scale && out.y.data == nullptr;
        const bool usual = normaliser.plain && codes_alone;
        const GridQuantised<T> to{grid(out.q), grid(out.scale), grid(out.y),
                                  one_scale ? -1 : std::countr_zero(lanes)};
        const AngleRows<T> angles(device_tables);
        const Tail tail = Tail::of(tables, x.cols, threads, vectors);
        // Where the columns that turn lie in lanes of one warp; false elsewhere.
        const auto launch_turning = [&]<Case which, int held>() {
          const Tail tail_held = Tail::of(tables, x.cols, threads, held);
          if (!tail_held.by_shuffle) return false;
          launch("rms_norm_rope_quant", stream, rms_norm_rope_quant_kernel<T, threads, held, which>,
                 grid.blocks(), threads, 0, grid(x), w.data, angles, to, static_cast<int>(count),
                 normaliser, tail_held);
          return true;
        };
        const auto launch_usual = [&]<int held>() {
          return launch_turning.template operator()<Case::usual, held>();
        };
        const auto launch_grouped = [&]<int held>() {
          const bool wide_groups = one_scale || lanes >= held;
          return wide_groups && launch_turning.template operator()<Case::grouped, held>();
        };
        if (usual && grid.rows() > few_blocks &&
            (launch_in_turn<threads, vectors>(stream, grid, grid(x), w.data, angles, to, count,
                                              normaliser, tail) ||
             launch_trimmed<threads, vectors>(count, launch_usual))) {
          return;
        }
        if (normaliser.plain && !codes_alone &&
            (launch_trimmed<threads, vectors>(count, launch_grouped) ||
             launch_grouped.template operator()<vectors>())) {
          return;
        }
        launch_case("rms_norm_rope_quant", stream, usual && tail.by_shuffle, grid.blocks(), threads,
                    shared, rms_norm_rope_quant_kernel<T, threads, vectors, Case::general>,
                    rms_norm_rope_quant_kernel<T, threads, vectors, Case::usual>,
                    rms_norm_rope_quant_kernel<T, threads, vectors, Case::few>, grid(x), w.data,
                    angles, to, static_cast<int>(count), normaliser, tail);
      });
  if (!held) {
    launch("rms_norm_rope_quant", stream, any_rms_norm_rope_quant_kernel<T>, blocks,
           row_shape<512>(count).threads, 0, x, w.data, device_tables, out, normaliser);
  }
}

template <class T>
void rms_norm_rope_quant_unfused(Stream stream, Rows<const std::type_identity_t<T>> x,
                                 Row<const std::type_identity_t<T>> w,
                                 const RopeTables<std::type_identity_t<T>>& tables,
                                 const Quantised<T>& result, Rows<std::type_identity_t<T>> normed,
                                 const RmsNormRopeQuantOptions& options) {
  check_norm_rope_quant<T>(x, w, tables, result, options);
  require_shape("y", result.y, x.rows(), x.cols);
  if (x.rows() == 0 || x.cols == 0) return;
  rms_norm_rope_unfused<T>(stream, x, w, tables, result.y, normed, options.norm);
  launch("quant", stream, quant_kernel<T>, blocks_for("x", x.rows()), 256, 0, result.y,
         on_device(result, x.cols, options.group_size));
}

#define OPBOOK_INSTANTIATE(T)                                                                      \
  template void rms_norm_rope_quant<T>(Stream, Rows<const T>, Row<const T>, const RopeTables<T>&,  \
                                       const Quantised<T>&, const RmsNormRopeQuantOptions&);       \
  template void rms_norm_rope_quant_unfused<T>(Stream, Rows<const T>, Row<const T>,                \
                                               const RopeTables<T>&, const Quantised<T>&, Rows<T>, \
                                               const RmsNormRopeQuantOptions&);
OPBOOK_INSTANTIATE(float)
OPBOOK_INSTANTIATE(float16)
OPBOOK_INSTANTIATE(bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::gpu
