// rms_norm_rope_quant step by step; the last step is rms_norm_rope_quant.cu.

#include "ch13_norm_rope/steps.cuh"
#include "common/cuda/quantise.cuh"
#include "common/cuda/rope.cuh"

namespace opbook::ch13::gpu {
namespace {

/// All that a step works on, as a kernel takes it; y may be nullptr.
template <class T>
struct Operands {
  const T *x, *w;
  DeviceTables<T> tables;
  float8_e4m3fn* q;
  float* scale;
  T* y;
  std::int64_t m;
  int n;
  float eps;
};

/// y / scale by a division, correctly rounded.
struct Division {
  float scale;
  __device__ explicit Division(float s) : scale(s) {}
  __device__ float operator()(float y) const { return __fdiv_rn(y, scale); }
};

/// The bit pattern of |value|, ordered like the magnitudes, NaN above all.
__device__ inline std::uint32_t magnitude(float value) {
  return __float_as_uint(value) & 0x7FFFFFFFu;
}
template <class T>
__device__ std::uint32_t largest_magnitude(const Vector<T>& vector) {
  float v[vector_width<T>];
  unpack(vector, v);
  std::uint32_t largest = 0;
#pragma unroll
  for (const float value : v) largest = max(largest, magnitude(value));
  return largest;
}

/// The largest over the block, in every thread.
__device__ inline std::uint32_t max_over_block(std::uint32_t value) {
  __shared__ std::uint32_t partial[32];
  return block_max(value, static_cast<int>(blockDim.x / 32), partial);
}

/// f(column, value) for all columns of a row: normalised, rounded, the last ones turned.
template <class T, class F>
__device__ void for_each_value(const T* x, const T* w, int n, int half, float rstd,
                               const Angles<T>& angles, F f) {
  const int kept = n - 2 * half;
  for (int j = 0; j < kept; ++j) f(j, normalised(x[j], w[j], rstd));
  for (int p = 0; p < half; ++p) {
    const int lower = kept + p, upper = lower + half;
    float low[1] = {as_float(normalised(x[lower], w[lower], rstd))};
    float high[1] = {as_float(normalised(x[upper], w[upper], rstd))};
    float cos[1], sin[1];
    angles.load(p, cos, sin);
    turn(low, high, cos, sin);
    f(lower, rounded_to<T>(low[0]));
    f(upper, rounded_to<T>(high[0]));
  }
}

/// naive: a thread a row, three times over it: for the squares, for the largest magnitude, and for
/// the codes.
template <class T>
__global__ void naive_quant_kernel(Operands<T> a) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= a.m) return;
  const std::int64_t start = i * a.n;
  const T* const x_row = a.x + start;
  const int half = static_cast<int>(a.tables.half);
  const Angles<T> angles(a.tables, i);
  CompensatedSquares squares;
  for (int j = 0; j < a.n; ++j) squares.add(as_float(x_row[j]));
  const float rstd = rstd_of(squares.sum(), a.n, a.eps);
  std::uint32_t largest = 0;
  for_each_value(x_row, a.w, a.n, half, rstd, angles,
                 [&](int, T value) { largest = max(largest, magnitude(as_float(value))); });
  const float scale = scale_of(largest);
  a.scale[i] = scale;
  for_each_value(x_row, a.w, a.n, half, rstd, angles, [&](int j, T value) {
    const std::uint32_t code = pack_e4m3(__fdiv_rn(as_float(value), scale), 0.0f);
    a.q[start + j] = {static_cast<std::uint8_t>(code)};
    if (a.y != nullptr) a.y[start + j] = value;
  });
}

/// f(i, vector) for the vectors of a row that fall to this thread: both of a pair, so that neither
/// has to be asked for elsewhere.
template <class T, class F>
__device__ void for_each_vector(const T* x, const T* w, int count, int half, float rstd,
                                const Angles<T>& angles, F f) {
  const auto normed = [&](int i) { return normalised(load_vector(x, i), load_vector(w, i), rstd); };
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  const int kept = count - 2 * half;
  for (int i = first; i < kept; i += step) f(i, normed(i));
  for (int p = first; p < half; p += step) {
    Vector<T> low = normed(kept + p), high = normed(kept + half + p), cos, sin;
    angles.load_vectors(p, cos, sin);
    turn(low, high, cos, sin);
    f(kept + p, low);
    f(kept + half + p, high);
  }
}

/// vectorised: a block a row and 16 bytes at a time; still three times over it, twice out of a
/// cache, and normalised and turned twice.
template <class T>
__global__ void vectorised_quant_kernel(Operands<T> a) {
  const std::int64_t start = std::int64_t{blockIdx.x} * a.n;
  const T* const x_row = a.x + start;
  const int count = a.n / vector_width<T>;
  const int half = static_cast<int>(a.tables.half / vector_width<T>);
  const Angles<T> angles(a.tables, blockIdx.x);
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    sum += squares_of(load_vector(x_row, i));
  }
  const float rstd = rstd_of(sum_over_block(sum), a.n, a.eps);
  std::uint32_t largest = 0;
  for_each_vector(x_row, a.w, count, half, rstd, angles,
                  [&](int, const Vector<T>& v) { largest = max(largest, largest_magnitude(v)); });
  const float scale = scale_of(max_over_block(largest));
  if (threadIdx.x == 0) a.scale[blockIdx.x] = scale;
  for_each_vector(x_row, a.w, count, half, rstd, angles, [&](int i, const Vector<T>& v) {
    store_codes(a.q + start, i, v, Division(scale));
    if (a.y != nullptr) store_vector(a.y + start, i, v);
  });
}

/// Turns the last 2 half vectors of a held row. They are vectors of one warp, by the limits of a
/// step, and partners lie `half` lanes apart: they swap by shuffles, without a barrier.
template <class T>
__device__ void turn_held(Held<T>& row, int count, int half, const Angles<T>& angles) {
#pragma unroll
  for (int k = 0; k < held_vectors; ++k) {
    const int place = row.index(k) - (count - 2 * half);
    const bool turns = place >= 0 && place < 2 * half;
    if (!__any_sync(0xFFFFFFFFu, turns)) continue;
    Vector<T> own = row.part[k], partner;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      partner.words[j] = __shfl_xor_sync(0xFFFFFFFFu, own.words[j], half);
    }
    if (!turns) continue;
    Vector<T> cos, sin;
    angles.load_vectors(place < half ? place : place - half, cos, sin);
    if (place < half) {
      turn(own, partner, cos, sin);
    } else {
      turn(partner, own, cos, sin);
    }
    row.part[k] = own;
  }
}

/// held, and with another Divide exact_quotient: read, normalised and turned once, in registers.
/// The block meets twice, for the sum and for the largest magnitude.
template <class T, class Divide>
__global__ __launch_bounds__(most_holders) void held_quant_kernel(Operands<T> a) {
  const std::int64_t start = std::int64_t{blockIdx.x} * a.n;
  const int count = a.n / vector_width<T>;
  Held<T> row, weights;
  row.load(a.x + start, count);
  weights.load(a.w, count);
  const float rstd = rstd_of(sum_over_block(row.squares()), a.n, a.eps);
#pragma unroll
  for (int k = 0; k < held_vectors; ++k) {
    row.part[k] = normalised(row.part[k], weights.part[k], rstd);
  }
  turn_held(row, count, static_cast<int>(a.tables.half / vector_width<T>),
            Angles<T>(a.tables, blockIdx.x));
  std::uint32_t largest = 0;
#pragma unroll
  for (int k = 0; k < held_vectors; ++k) {
    if (row.index(k) < count) largest = max(largest, largest_magnitude(row.part[k]));
  }
  const float scale = scale_of(max_over_block(largest));
  if (threadIdx.x == 0) a.scale[blockIdx.x] = scale;
  const Divide divide(scale);
#pragma unroll
  for (int k = 0; k < held_vectors; ++k) {
    if (row.index(k) >= count) continue;
    store_codes(a.q + start, row.index(k), row.part[k], divide);
    if (a.y != nullptr) store_vector(a.y + start, row.index(k), row.part[k]);
  }
}

}  // namespace

template <class T>
void rms_norm_rope_quant_step(Stream stream, QuantStep step, Rows<const std::type_identity_t<T>> x,
                              Row<const std::type_identity_t<T>> w,
                              const RopeTables<std::type_identity_t<T>>& tables,
                              const Quantised<T>& result, const RmsNormRopeQuantOptions& options) {
  check_quant_step<T>(x, w, tables, result, options);
  if (x.rows() == 0 || x.cols == 0) return;
  const unsigned blocks = blocks_for("x", x.rows());
  const int n = static_cast<int>(x.cols), holding = holders(n / vector_width<T>);
  const Operands<T> operands{
      x.data,   w.data, DeviceTables<T>(tables), result.q.data, result.scale.data, result.y.data,
      x.rows(), n,      options.norm.eps};
  switch (step) {
    case QuantStep::naive:
      launch("naive", stream, naive_quant_kernel<T>,
             (blocks + threads_of_rows - 1) / threads_of_rows, threads_of_rows, 0, operands);
      break;
    case QuantStep::vectorised:
      launch("vectorised", stream, vectorised_quant_kernel<T>, blocks, threads_of_a_row, 0,
             operands);
      break;
    case QuantStep::held:
      launch("held", stream, held_quant_kernel<T, Division>, blocks, holding, 0, operands);
      break;
    case QuantStep::exact_quotient:
      launch("exact_quotient", stream, held_quant_kernel<T, Quotient<T>>, blocks, holding, 0,
             operands);
      break;
  }
}

#define OPBOOK_INSTANTIATE(T)                                                               \
  template void rms_norm_rope_quant_step<T>(Stream, QuantStep, Rows<const T>, Row<const T>, \
                                            const RopeTables<T>&, const Quantised<T>&,      \
                                            const RmsNormRopeQuantOptions&);
OPBOOK_INSTANTIATE(float)
OPBOOK_INSTANTIATE(float16)
OPBOOK_INSTANTIATE(bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::gpu
