// Fused: a thread turns one pair of vectors, 16 bytes of the lower and 16 of the upper half of a
// head, so that no thread needs what another one holds. Neighbouring threads take neighbouring
// pairs, head after head, token after token; a token's angles come from the caches after its first
// head.

#include "ch13_norm_rope/rope.hpp"
#include "ch13_norm_rope/unfused.cuh"
#include "common/cuda/rope.cuh"

namespace opbook::ch13::gpu {
namespace {

constexpr unsigned rope_threads = 128;  // 4 KB a block: larger ones copy at 95 % instead of 100 %

/// blockDim.x threads along a head's pairs, blockDim.y heads a block. `few`: launched early, where
/// blocks are few. Of many the wait alone costs, up to 2.5 % at 256 tokens.
template <int width, class T, bool few>
__global__ __launch_bounds__(rope_threads) void rope_kernel(Rows<const T> x, DeviceTables<T> tables,
                                                            Rows<T> y) {
  // One division a thread, of 32 bits: of 64 it would take ten times as long.
  const unsigned row = blockIdx.x * blockDim.y + threadIdx.y;
  const auto heads = static_cast<unsigned>(x.inner);
  const unsigned token = row / heads, head = row - token * heads;
  if (token >= x.outer) return;
  const T* const x_head = x.data + token * x.outer_stride + head * x.inner_stride;
  T* const y_head = y.data + token * y.outer_stride + head * y.inner_stride;
  const std::int64_t half = x.cols / 2;
  if constexpr (few) await_earlier_kernels(x_head, y_head);
  const Angles<T> angles(tables, token);
  for (std::int64_t column = threadIdx.x * width; column < half; column += blockDim.x * width) {
    if constexpr (width > 1) {
      Vector<T> low = load_vector(x_head + column, 0),
                high = load_vector(x_head + half + column, 0);
      Vector<T> cos, sin;
      angles.load_vectors(column / width, cos, sin);
      turn(low, high, cos, sin);
      store_vector(y_head + column, 0, low);
      store_vector(y_head + half + column, 0, high);
    } else {
      float low[1] = {as_float(x_head[column])}, high[1] = {as_float(x_head[half + column])};
      float c[1], s[1];
      angles.load(column, c, s);
      turn(low, high, c, s);
      y_head[column] = rounded_to<T>(low[0]);
      y_head[half + column] = rounded_to<T>(high[0]);
    }
  }
}

/// (-hi, lo) of each head.
template <class T>
struct SwapHalves {
  Rows<const T> x;
  template <int width>
  __device__ void operator()(std::int64_t row, std::int64_t column, float (&v)[width]) const {
    const std::int64_t half = x.cols / 2;
    const bool low = column < half;
    load_floats(row_of(x, row) + (low ? column + half : column - half), v);
#pragma unroll
    for (int j = 0; j < width; ++j) v[j] = low ? -v[j] : v[j];
  }
};

/// Both halves of each head times their token's row of a table.
template <class T, bool sine>
struct MultiplyTable {
  Rows<const T> x;
  DeviceTables<T> tables;
  template <int width>
  __device__ void operator()(std::int64_t row, std::int64_t column, float (&v)[width]) const {
    const std::int64_t half = x.cols / 2;
    float c[width], s[width];
    load_floats(row_of(x, row) + column, v);
    Angles<T>(tables, row / x.inner).load(column < half ? column : column - half, c, s);
#pragma unroll
    for (int j = 0; j < width; ++j) v[j] *= sine ? s[j] : c[j];
  }
};

template <class T>
bool halves_on_vectors(Rows<const T> x, const RopeTables<T>& tables) {
  return on_vectors(x) && pairs_on_vectors(tables, x.cols);
}

}  // namespace

template <class T>
void rope(Stream stream, Rows<const std::type_identity_t<T>> x,
          const RopeTables<std::type_identity_t<T>>& tables, Rows<T> y) {
  check_rope<T>(x, tables, y);
  if (x.rows() == 0 || x.cols == 0) return;
  const bool vectors = halves_on_vectors<T>(x, tables) && on_vectors(y);
  const std::int64_t pairs = x.cols / 2 / (vectors ? vector_width<T> : 1);
  unsigned across = 1;
  while (across < rope_threads && across < pairs) across *= 2;
  const unsigned heads = rope_threads / across;
  if (x.rows() > 0x7FFFFFFF) {
    throw ArgumentError("x: got " + std::to_string(x.rows()) +
                        " tokens times heads; allowed: up to 2147483647");
  }
  const unsigned blocks = blocks_for("x", (x.rows() + heads - 1) / heads);
  const auto kernel_for = [&]<bool few>() {
    return vectors ? rope_kernel<vector_width<T>, T, few> : rope_kernel<1, T, few>;
  };
  launch_by_blocks("rope", stream, kernel_for.template operator()<false>(),
                   kernel_for.template operator()<true>(), blocks, dim3(across, heads), 0, x,
                   DeviceTables<T>(tables), y);
}

template <class T>
void rope_unfused(Stream stream, Rows<const std::type_identity_t<T>> x,
                  const RopeTables<std::type_identity_t<T>>& tables, Rows<T> y,
                  const RopeIntermediates<T>& intermediates) {
  check_rope<T>(x, tables, y);
  check_intermediates<T>(intermediates, x);
  if (x.rows() == 0 || x.cols == 0) return;
  const Rows<T> rot = intermediates.rot, t = intermediates.t, u = intermediates.u;
  const DeviceTables<T> device_tables(tables);
  const bool vectors = halves_on_vectors<T>(x, tables);
  map("rot", stream, rot, vectors, SwapHalves<T>{x});
  map("t", stream, t, vectors, MultiplyTable<T, false>{x, device_tables});
  map("u", stream, u, vectors && on_vectors(rot), MultiplyTable<T, true>{rot, device_tables});
  map("y", stream, y, on_vectors(t) && on_vectors(u), OfMatrices<T, Add>{t, u, {}});
}

#define OPBOOK_INSTANTIATE(T)                                                         \
  template void rope<T>(Stream, Rows<const T>, const RopeTables<T>&, Rows<T>);        \
  template void rope_unfused<T>(Stream, Rows<const T>, const RopeTables<T>&, Rows<T>, \
                                const RopeIntermediates<T>&);
OPBOOK_INSTANTIATE(float)
OPBOOK_INSTANTIATE(float16)
OPBOOK_INSTANTIATE(bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::gpu
