// The plan of three kernels, each through memory: norm, rope, quant. What they store in between is
// rounded to the input's dtype.

#include "ch28_design/any_head.cuh"
#include "ch28_design/held_head.cuh"
#include "ch28_design/our_blocks.hpp"
#include "common/cuda/launch.cuh"

namespace opbook::ch28::gpu {
namespace {

constexpr int unfused_threads = 128;

/// The row of this thread's team, and whether there is one; if not, it stands in for the last one.
template <class T, class Lane>
struct TeamRow {
  std::uint32_t row;
  bool there;
  Head head;

  __device__ explicit TeamRow(const HeldInputs<T>& in) {
    const std::uint32_t own = blockIdx.x * (unfused_threads / Lane::lanes) + Lane::team();
    there = own < in.rows;
    row = min(own, in.rows - 1);
    head = in.head(row);
  }
};

template <class T, class Lane>
__global__ __launch_bounds__(unfused_threads) void held_norm_kernel(HeldInputs<T> in,
                                                                    ByteRows normed) {
  using Part = PackedPairs<T, Lane::pairs>;
  const Lane lane(in.half);
  const TeamRow<T, Lane> at(in);
  const Part packed_weight = Part::of(in.weight(at.head), lane);
  auto v = Part::of(in.x(at.head), lane).values();
  const auto weight = packed_weight.values();
  const float rstd = held_rstd(v, lane, in.eps);
  normalise(v.low, weight.low, rstd);
  normalise(v.high, weight.high, rstd);
  if (at.there) Part::of(v).store(normed.at<T>(at.head), lane);
}

template <class T, class Lane>
__global__ __launch_bounds__(unfused_threads) void held_rope_kernel(HeldInputs<T> in,
                                                                    ByteRows normed,
                                                                    ByteRows rotated) {
  using Part = PackedPairs<T, Lane::pairs>;
  const Lane lane(in.half);
  const TeamRow<T, Lane> at(in);
  const TableRow table_row = in.table_row(at.head.token);
  auto v = Part::of(normed.at<const T>(at.head), lane).values();
  const HeldAngles<Lane> angles(in, lane, table_row);
  lane.for_each_piece([&](const auto& piece) {
    if (!piece.turns) return;
    if (!table_row.there) fill(piece.of(v.low), __uint_as_float(0x7FFFFFFFu));
    angles.turn(v, piece);
  });
  if (at.there) Part::of(v).store(rotated.at<T>(at.head), lane);
}

template <class T, class Lane>
__global__ __launch_bounds__(unfused_threads) void held_quant_kernel(HeldInputs<T> in,
                                                                     ByteRows rotated,
                                                                     HeldOutputs out) {
  const Lane lane(in.half);
  const TeamRow<T, Lane> at(in);
  const auto y = PackedPairs<T, Lane::pairs>::of(rotated.at<const T>(at.head), lane).values();
  held_quantise(y, lane, HeadTarget(out, lane, at.row, at.head, at.there));
}

template <class T, int dh, bool all_turn>
void launch_held_unfused(Stream stream, const HeldInputs<T>& in, ByteRows normed, ByteRows rotated,
                         const HeldOutputs& out) {
  using Lanes = Lane<dh, pairs_of_a_lane(dh, our_pairs), all_turn>;
  constexpr std::int64_t rows = unfused_threads / Lanes::lanes;
  const unsigned blocks = blocks_for("rows", (in.rows + rows - 1) / rows);
  launch("norm", stream, held_norm_kernel<T, Lanes>, blocks, unfused_threads, 0, in, normed);
  launch("rope", stream, held_rope_kernel<T, Lanes>, blocks, unfused_threads, 0, in, normed,
         rotated);
  launch("quant", stream, held_quant_kernel<T, Lanes>, blocks, unfused_threads, 0, in, rotated,
         out);
}

/// Any dh, any base, any strides: a warp a row.
__device__ inline std::uint32_t warp_row() {
  return blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
}

template <class T>
__global__ void any_norm_kernel(DeviceHeads<T> in, Rows<T> normed) {
  if (warp_row() >= in.rows) return;
  const Head head = in.head(warp_row());
  const T* const x = in.x(head);
  const float rstd = any_rstd(x, in.dh, in.half(), in.eps);
  for (AnyPairs part(in.dh, in.half()); part.any(); part.next()) {
    part.load(x);
    part.normalise(in.weight(head), rstd);
    part.store(head_of(normed, head));
  }
}

template <class T>
__global__ void any_rope_kernel(DeviceHeads<T> in, Rows<const T> normed, Rows<T> rotated) {
  if (warp_row() >= in.rows) return;
  const Head head = in.head(warp_row());
  const Angles<float> angles(in.tables, head.token);
  for (AnyPairs part(in.dh, in.half()); part.any(); part.next()) {
    part.load(head_of(normed, head));
    part.turn(angles);
    part.store(head_of(rotated, head));
  }
}

template <class T>
__global__ void any_quant_kernel(DeviceHeads<T> in, Rows<const T> rotated, DeviceOutputs out) {
  if (warp_row() >= in.rows) return;
  const Head head = in.head(warp_row());
  const T* const y = head_of(rotated, head);
  any_quantise(out, head, warp_row(), in.dh, in.half(), [&](AnyPairs& part) { part.load(y); });
}

}  // namespace

template <class T>
void qk_norm_rope_quant_unfused(Stream stream, const QkHeads<T>& in, const QuantisedHeads& out,
                                const QkIntermediates<T>& intermediates, const QkOptions& options) {
  check_qk_unfused(in, out, intermediates, options);
  if (in.rows() == 0 || in.dh() == 0) return;
  const DeviceHeads<T> heads(in, options.eps);
  const DeviceOutputs outputs(out, in);
  const Rows<T> normed = by_token(intermediates.normed, in.tokens(), in.heads());
  const Rows<T> rotated = by_token(intermediates.rotated, in.tokens(), in.heads());
  const bool held =
      HeldInputs<T>::fits(in) && HeldOutputs::fits(outputs) && ByteRows::fits(normed, 16) &&
      ByteRows::fits(rotated, 16) && with_held_width(in.dh(), [&]<int dh>() {
        const auto launch_all = in.rope.rope_dim() == dh ? launch_held_unfused<T, dh, true>
                                                         : launch_held_unfused<T, dh, false>;
        launch_all(stream, HeldInputs<T>(heads), ByteRows::of(normed), ByteRows::of(rotated),
                   HeldOutputs(outputs));
      });
  if (held) return;
  const unsigned blocks = blocks_for("rows", (in.rows() + 3) / 4);
  launch("norm", stream, any_norm_kernel<T>, blocks, 128, 0, heads, normed);
  launch("rope", stream, any_rope_kernel<T>, blocks, 128, 0, heads, normed, rotated);
  launch("quant", stream, any_quant_kernel<T>, blocks, 128, 0, heads, rotated, outputs);
}

#define OPBOOK_INSTANTIATE(T)                                                                   \
  template void qk_norm_rope_quant_unfused<T>(Stream, const QkHeads<T>&, const QuantisedHeads&, \
                                              const QkIntermediates<T>&, const QkOptions&);
OPBOOK_INSTANTIATE(float16)
OPBOOK_INSTANTIATE(bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch28::gpu
