#pragma once

// What the kernels that begin with an RMSNorm share, on a device.

#include "ch13_norm_rope/rms_norm.hpp"
#include "common/cuda/early.cuh"
#include "common/cuda/held_row.cuh"
#include "common/cuda/reduce.cuh"

namespace opbook::ch13::gpu {

using namespace opbook::gpu;

/// How a row is normalised: y = x * rstd * (offset + w), rounded before the weight too if asked.
struct Normaliser {
  float one_over_n;
  float eps;
  float offset;        ///< 0 or 1
  bool before_weight;  ///< round x * rstd to T first
  bool plain;          ///< neither: what nearly every model takes

  Normaliser(std::int64_t columns, const RmsNormOptions& options)
      : one_over_n(1.0f / static_cast<float>(columns)),
        eps(options.eps),
        offset(static_cast<float>(options.weight_offset)),
        before_weight(options.rounding == Rounding::before_weight),
        plain(options.weight_offset == 0 && options.rounding == Rounding::once) {}

  /// rstd of a row whose squares sum to `sum`. A multiplication and the approximate root (2 units
  /// in the last place) instead of two divisions and a root: every row waits for them.
  __device__ float rstd(float sum) const { return rsqrtf(fmaf(sum, one_over_n, eps)); }

  template <class T>
  __device__ float apply(float x, float w, float rstd) const {
    if (plain) return x * rstd * w;  // not w + 0, which would turn -0 into +0
    const float scaled = before_weight ? as_float(rounded_to<T>(x * rstd)) : x * rstd;
    return scaled * (offset == 0.0f ? w : offset + w);
  }
};

/// The cases that a kernel is compiled for. All options in one kernel would cost it registers, and
/// a branch in its loop keeps the compiler from asking for the next weights while it computes.
enum class Case {
  general,
  usual,    ///< the options that nearly every model takes
  grouped,  ///< the same, but with y or with a scale for each group (rms_norm_rope_quant)
  few       ///< the usual ones for few rows, which do not fill the card: nothing but time is short
};
__host__ __device__ constexpr bool is_usual(Case which) {
  return which != Case::general;
}

/// Blocks that must fit an SM at once.
template <class T>
__host__ __device__ constexpr int blocks_per_sm(Case which, int threads, int vectors) {
  return which == Case::few ? 1 : opbook::gpu::blocks_per_sm<T>(threads, vectors);
}

/// Launches a kernel in the case that fits: `usual`, whether the options are.
template <class... Parameters>
void launch_case(const char* name, Stream stream, bool usual, dim3 blocks, int threads,
                 std::int64_t shared, void (*general_kernel)(Parameters...),
                 void (*usual_kernel)(Parameters...), void (*few_kernel)(Parameters...),
                 std::type_identity_t<Parameters>... arguments) {
  if (!usual) {
    launch(name, stream, general_kernel, blocks, threads, shared, arguments...);
  } else {
    launch_by_blocks(name, stream, usual_kernel, few_kernel, blocks, threads, shared, arguments...);
  }
}

/// What all rows share, such as the weights, as a thread needs it: of a few rows it is asked for
/// together with the row. Else late, a vector at a time: otherwise the compiler asks for all of
/// them together, before the reduction, and for the registers to put them in.
template <class T, int threads, int vectors, bool early>
class SharedRow {
 public:
  __device__ SharedRow(const T* row, int count) : row_(row), count_(count) {
    if constexpr (early) held_.load(row, count);
  }
  __device__ Vector<T> operator[](int k) const {
    if constexpr (early) return held_.part[k];
    const int i = Held::index(k);
    return load_vector_if(i < count_, row_, i);
  }

 private:
  using Held = HeldRow<T, threads, vectors>;
  struct None {};
  std::conditional_t<early, Held, None> held_;
  const T* row_;
  int count_;
};

/// A held row becomes its normalised self, rounded to T; the zeros beyond its end stay zeros, or
/// become NaN where rstd is Inf or NaN.
template <Case which, class Held, class Weights, class Then>
__device__ void normalise_held(Held& row, const Weights& w, float rstd,
                               const Normaliser& normaliser, Then then) {
  using T = typename Held::T;
#pragma unroll
  for (int k = 0; k < Held::vectors; ++k) {
    if constexpr (which != Case::few) asm volatile("" ::: "memory");  // no weights earlier
    row.part[k] = map_elements<T>(
        [&](float v, float g) {
          return is_usual(which) ? v * rstd * g : normaliser.apply<T>(v, g, rstd);
        },
        row.part[k], w[k]);
    then(k);
  }
}

/// Vectors of a row up to which a thread of rms_norm and layer_norm holds four of them. A vector of
/// float32 has half the elements: there four are 1 % faster than eight at 8192 columns, too.
template <class T>
inline constexpr int four_up_to = sizeof(T) == 4 ? 2048 : 1024;

/// Whether sums over a block go through shared memory by eights: where rows are few, and a block of
/// two to four warps waits for nothing else.
template <Case which, class Held>
inline constexpr bool sums_by_eights =
    which == Case::few && Held::threads >= 64 && Held::threads <= 128;

/// The sum over the block of its threads' values, in every thread. `partial` is shared memory of an
/// element a warp; where rows are few, of 32 elements on a boundary of 16 bytes.
template <Case which, class Held>
__device__ float sum_over_block(float value, float* partial) {
  constexpr int warps = Held::threads / 32;
  if constexpr (sums_by_eights<which, Held>) {
    return block_sum_by_eights<warps>(value, partial);
  } else {
    return block_sum(value, warps, partial, Held::warp());
  }
}

/// The same of what a SquareSum or an ElementSum has.
template <Case which, class Held, class Sum>
__device__ float sum_over_block(const Sum& sum, float* partial) {
#if OPBOOK_SM >= 800
  if constexpr (sums_by_eights<which, Held> && sizeof(typename Held::T) == 2) {
    return block_sum_of_eights<Held::threads / 32>(sum.share(), is_on_diagonal(), partial);
  }
#endif
  return sum_over_block<which, Held>(sum.share(), partial);
}

/// The sum of the squares of a held row, in every thread; `partial` as above.
template <Case which, class Held>
__device__ float sum_of_squares(const Held& row, float* partial) {
  SquareSum<typename Held::T> sum;
#pragma unroll
  for (int k = 0; k < Held::vectors; ++k) sum.add(row.part[k]);  // beyond the row there are zeros
  return sum_over_block<which, Held>(sum, partial);
}

/// The same of a row of any length on any boundary, with the same bits: a thread adds the same
/// elements in the same order.
template <class T>
__device__ float any_sum_of_squares(const T* row, std::int64_t size, float* partial) {
  SquareSum<T> sum;
  const int threads = static_cast<int>(blockDim.x);
  for (std::int64_t first = 0; first * vector_width<T> < size; first += threads) {
    sum.add(load_elements(row, first + threadIdx.x, size));
  }
  return block_sum(sum.share(), threads / 32, partial);
}

}  // namespace opbook::ch13::gpu
