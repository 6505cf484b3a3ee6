#pragma once

// rms_norm_rope_quant where blocks stay and take rows in turn (sm_90): while a block computes with
// one row in registers, the next one comes into shared memory by itself. A block that is launched
// for its row alone has nothing to compute while it waits for it, nor anything under way while it
// computes; other blocks make up for that, but less so at the beginning and at the end, which in
// 4096 rows are most of it: 85 % of a copy so, 88 % in turn. What else was learnt by trials there:
//  - Six rows of 4096 columns an SM, and one more of each under way: with eight it was 3 % slower,
//    with two more under way 11 %. All that is asked for at once comes at the same time, so the
//    more, the later the first rows.
//  - Weights unpacked once, into shared memory, and the last columns' extra work moving from
//    scheduler to scheduler are worth 1 to 2 % together, and nothing alone.
//  - Angles by the row's own copy instead of into registers a row ahead cost 3 %: three copies are
//    a hundred instructions of one thread, and its warp is waited for.

#include <algorithm>

#include "ch13_norm_rope/quantise_held.cuh"
#include "ch13_norm_rope/turn.cuh"
#include "common/cuda/bulk_copy.cuh"

namespace opbook::ch13::gpu {

/// A weight of `count` vectors of a 16-bit type as float32, in shared memory: the lower and the
/// higher halves of vectors lie apart, so that neighbouring threads read neighbouring 16 bytes.
template <class T, int count>
struct WideWeights {
  float4 low[count], high[count];

  __device__ void set(int i, const Vector<T>& weights) {
    float v[8];
    unpack(weights, v);
    low[i] = make_float4(v[0], v[1], v[2], v[3]);
    high[i] = make_float4(v[4], v[5], v[6], v[7]);
  }
  /// x * rstd * w of vector i.
  __device__ Vector<T> normalised(const Vector<T>& x, int i, float rstd) const {
    const float4 l = low[i], h = high[i];
    const float w[8] = {l.x, l.y, l.z, l.w, h.x, h.y, h.z, h.w};
    float v[8];
    unpack(x, v);
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = v[j] * rstd * w[j];
    return pack<T>(v);
  }
};

/// What a block has in shared memory.
template <class T, int count>
struct InTurn {
  Vector<T> next[count];  ///< the row to come
  WideWeights<T, count> weights;
};

/// Threads of an SM's blocks.
inline constexpr int in_turn_threads = 768;

/// Rows in order, one stride apart.
template <class T>
struct FlatRows {
  T* data;
  std::int64_t stride;
  __device__ T* operator[](unsigned row) const { return data + row * stride; }
};

/// The usual options, rows that fill threads * vectors vectors; the grid's blocks take the `rows`.
template <class T, int threads, int vectors>
__global__
__launch_bounds__(threads, in_turn_threads / threads) void rms_norm_rope_quant_in_turn_kernel(
    FlatRows<const T> x, const T* w, AngleRows<T> tables, FlatRows<float8_e4m3fn> q,
    FlatRows<float> scale, unsigned rows, Normaliser normaliser, Tail tail) {
#if OPBOOK_SM >= 900
  using Row = HeldRow<T, threads, vectors, true>;
  constexpr int count = threads * vectors, bytes = count * 16;
  extern __shared__ uint4 shared[];
  __shared__ BulkArrival arrival;
  __shared__ alignas(16) float partial[threads / 32];
  auto& in = *reinterpret_cast<InTurn<T, count>*>(shared);

  const bool asks = threadIdx.x == 0;
  if (asks) {
    arrival.init();
    arrival.ask(in.next, x[blockIdx.x], bytes);
  }
  TailTurn<Row, true> tail_turn(tables, tail);
#pragma unroll
  for (int k = 0; k < vectors; ++k) in.weights.set(Row::index(k), load_vector(w, Row::index(k)));
  __syncthreads();
  unsigned time = 0;
  for (unsigned r = blockIdx.x; r < rows; r += gridDim.x) {
    arrival.wait(time++);
    Row row;
    row.take(in.next);
    const float rstd = normaliser.rstd(sum_of_squares<Case::usual>(row, partial));
    // Every thread has taken its part: it came through the barrier of the sum.
    const unsigned next = r + gridDim.x;
    if (asks && next < rows) arrival.ask(in.next, x[next], bytes);
#pragma unroll
    for (int k = 0; k < vectors; ++k) {
      asm volatile("" ::: "memory");  // no weights earlier, for want of registers
      row.part[k] = in.weights.normalised(row.part[k], Row::index(k), rstd);
    }
    tail_turn.turn(row, nullptr);
    if (next < rows) tail_turn.ask_for_next(next);
    quantise_row<true>(row, count, q[r], scale[r]);
  }
#endif
}

/// Launches it where it fits; false elsewhere.
template <int threads, int vectors, class T>
bool launch_in_turn(Stream stream, const RowGrid& grid, GridRows<const T> x, const T* w,
                    const AngleRows<T>& tables, const GridQuantised<T>& out, std::int64_t count,
                    const Normaliser& normaliser, const Tail& tail) {
  if constexpr (sizeof(T) == 2 && vectors == 4 && threads >= 64) {
    constexpr const char* name = "rms_norm_rope_quant";
    const auto kernel = rms_norm_rope_quant_in_turn_kernel<T, threads, vectors>;
    const dim3 rows = grid.blocks();
    // Positions would be one more wait in front of the angles, and of the whole row.
    if (count != threads * vectors || !tail.by_shuffle || tables.positions != nullptr ||
        rows.y > 1 || !is_compiled_for_sm90(reinterpret_cast<const void*>(kernel), name)) {
      return false;
    }
    const unsigned at_once = static_cast<unsigned>(multiprocessors() * in_turn_threads / threads);
    launch(name, stream, kernel, std::min(rows.x, at_once), threads,
           sizeof(InTurn<T, threads * vectors>), FlatRows<const T>{x.data, x.outer_stride}, w,
           tables, FlatRows<float8_e4m3fn>{out.q.data, out.q.outer_stride},
           FlatRows<float>{out.scale.data, out.scale.outer_stride}, rows.x, normaliser, tail);
    return true;
  }
  return false;
}

}  // namespace opbook::ch13::gpu
