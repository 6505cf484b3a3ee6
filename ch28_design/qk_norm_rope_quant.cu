// The four designs. Each reads a head once and writes its codes and its scale; they differ in how
// the rows of the flat grid are cut into blocks, and so in how often weights and angles, which rows
// share, come from the L2:
//   A  a row a block: every row asks the L2 for them anew.
//   B  rows_per_block rows: those of one token share its angles through the L1.
//   C  all rows of a token.
//   D  a warp takes a few heads of one token, all of q or all of k, two for each team of lanes.
//      Weight, angles, and where rows begin are then the warp's: where each lane worked them out
//      for rows of any token, 32768 tokens took 8 % longer. It asks for both heads before it waits
//      for either, and asks the L2 for those of a later block: a kernel without that took 4 %
//      longer. One head a team took 42 % longer, four 14 %. (The compiler had moved the second
//      head's loads behind the first one's reduction. load_early keeps them, which by itself
//      brought nothing that could be measured.)
//      Few rows do not fill the card, and nothing overlaps: a head a team, four pairs a lane
//      instead of eight, and the launch itself early.

#include <algorithm>
#include <vector>

#include "ch28_design/any_head.cuh"
#include "ch28_design/held_head.cuh"
#include "ch28_design/our_blocks.hpp"
#include "ch28_design/warp_heads.cuh"
#include "common/cuda/early.cuh"

namespace opbook::ch28::gpu {
namespace {

/// Designs A, B and C: block b takes the `rows_per_block` rows from b rows_per_block on, a team of
/// lanes a row. Fewer registers than 64 would be too few to ask for things early.
template <class T, class Lane, int most_threads>
__global__ __launch_bounds__(
    most_threads,
    std::min(16, 1024 / most_threads)) void block_of_rows_kernel(HeldInputs<T> in, HeldOutputs out,
                                                                 std::uint32_t rows_per_block) {
  const Lane lane(in.half);
  const std::uint32_t first = blockIdx.x * rows_per_block;
  const std::uint32_t end = min(first + rows_per_block, in.rows);
  const std::uint32_t teams = blockDim.x / Lane::lanes;
  // The same number of rounds in all lanes of a warp: they meet in shuffles.
  for (std::uint32_t round = first; round < end; round += teams) {
    const std::uint32_t row = round + lane.team();
    const HeldHead<T, Lane> head(in, lane, min(row, end - 1));
    head.finish(in, lane, out, row < end);
  }
}

/// Blocks that are to fit an SM: `wanted` by what sm_90's code takes of registers. That of others
/// takes some more, and would spill.
__host__ __device__ constexpr int blocks_to_fit(int wanted) {
#if OPBOOK_SM / 100 != 9
  wanted = wanted * 3 / 4;
#endif
  return wanted < most_blocks_per_sm() ? wanted : most_blocks_per_sm();
}

/// Design D. `blocks` that must fit an SM tell the compiler how many registers it may take.
template <class T, class Lane, int steps, int blocks>
__global__ __launch_bounds__(32, blocks_to_fit(blocks)) void many_heads_kernel(HeldInputs<T> in,
                                                                               HeldOutputs out,
                                                                               WarpGrid grid) {
  constexpr unsigned at_once = Lane::teams_a_warp;
  const Lane lane(in.half);
  const unsigned team = lane.team();
  const WarpHeads heads = grid.own(in);
  const HeadRows<T> rows(in, heads);
  PackedPairs<T, Lane::pairs> x[steps];
#pragma unroll
  for (int i = 0; i < steps; ++i) {
    x[i] = PackedPairs<T, Lane::pairs>::of(rows[min(i * at_once + team, heads.count - 1)], lane);
  }
  rows.bring_nearer(grid.tokens_ahead(heads), heads.count, Lane::dh * sizeof(T));
  const TableRow at = in.table_row(heads.token);
  const SharedOperands<T, Lane> operands(in, lane, heads.of_q ? in.q_weight : in.k_weight, at);
#pragma unroll
  for (int i = 0; i < steps; ++i) {
    if (i * at_once >= heads.count) return;
    const std::uint32_t place = i * at_once + team, head = heads.first + place;
    held_finish(x[i], lane, in.eps, operands, at.there,
                HeadTarget(out, lane, heads.token * in.heads + head, {heads.token, head},
                           place < heads.count));
  }
}

/// Design D for few rows: a row a team.
template <class T, class Lane, int threads>
__global__ __launch_bounds__(threads) void few_heads_kernel(HeldInputs<T> in, HeldOutputs out) {
  const Lane lane(in.half);
  const std::uint32_t row = blockIdx.x * (threads / Lane::lanes) + lane.team();
  const Head head = in.head(min(row, in.rows - 1));
  const T *const x_row = in.x(head), *const weight = in.weight(head);
  const HeadTarget to(out, lane, row, head, row < in.rows);
  await_earlier_kernels(x_row, weight, to.codes, to.scale);
  const auto x = PackedPairs<T, Lane::pairs>::of(x_row, lane);
  const TableRow at = in.table_row(head.token);
  const SharedOperands<T, Lane> operands(in, lane, weight, at);
  held_finish(x, lane, in.eps, operands, at.there, to);
}

/// Any dh, any base, any strides: a warp a row.
template <class T>
__global__ void any_heads_kernel(DeviceHeads<T> in, DeviceOutputs out,
                                 std::uint32_t rows_per_block) {
  const std::uint32_t first = blockIdx.x * rows_per_block;
  const std::uint32_t end = min(first + rows_per_block, in.rows);
  for (std::uint32_t row = first + threadIdx.x / 32; row < end; row += blockDim.x / 32) {
    const Head head = in.head(row);
    const Angles<float> angles(in.tables, head.token);
    const T* const x = in.x(head);
    const T* const weight = in.weight(head);
    const float rstd = any_rstd(x, in.dh, in.half(), in.eps);
    const auto normed_and_turned = [&](AnyPairs& part) {
      part.load(x);
      part.normalise(weight, rstd);
      part.turn(angles);
    };
    if (out.y.data != nullptr) {
      for (AnyPairs part(in.dh, in.half()); part.any(); part.next()) {
        normed_and_turned(part);
        part.store(head_of(out.y, head));
      }
    }
    any_quantise(out, head, row, in.dh, in.half(), normed_and_turned);
  }
}

std::uint32_t rows_per_block(const QkOptions& options, std::int64_t heads) {
  switch (options.design) {
    case Design::A:
      return 1;
    case Design::B:
      return static_cast<std::uint32_t>(options.rows_per_block);
    case Design::C:
      return static_cast<std::uint32_t>(heads);
    default:
      return static_cast<std::uint32_t>(our_unheld_rows);  // D, where it takes the slow path
  }
}

template <class T, int dh, bool all_turn>
void launch_held(Stream stream, const HeldInputs<T>& in, const HeldOutputs& out,
                 const QkOptions& options) {
  const char* const name = "qk_norm_rope_quant";
  const std::uint32_t rows = rows_per_block(options, in.heads);
  const auto blocks = [&](std::int64_t each) {
    return blocks_for("rows", (in.rows + each - 1) / each);
  };
  using Usual = Lane<dh, pairs_of_a_lane(dh, our_pairs), all_turn>;
  if (options.design == Design::D) {
    if (in.rows <= our_few_rows) {
      using FewPairs = Lane<dh, pairs_of_a_lane(dh, our_few_pairs), all_turn>;
      constexpr int threads = our_few_threads;
      launch_early(name, stream, few_heads_kernel<T, FewPairs, threads>,
                   blocks(our_few_rows_of_a_block(dh)), threads, 0, in, out);
    } else {
      constexpr int fit = (Usual::pairs == 6 ? 32 : 28) - (all_turn ? 0 : 4);
      const WarpGrid grid(in, our_heads_of_a_block(dh), fit * multiprocessors());
      launch(name, stream, many_heads_kernel<T, Usual, our_steps, fit>,
             blocks_for("rows", grid.blocks()), 32, 0, in, out, grid);
    }
  } else if (options.design == Design::A) {
    using OneRow = Lane<dh, pairs_of_a_lane(dh, dh <= 128 ? 2 : 4), all_turn>;
    launch(name, stream, block_of_rows_kernel<T, OneRow, 32>, blocks(1), 32, 0, in, out, rows);
  } else {
    constexpr int most = 512;
    const std::uint64_t lanes = std::uint64_t{rows} * Usual::lanes;
    const auto threads =
        static_cast<unsigned>(std::min<std::uint64_t>((lanes + 31) / 32 * 32, most));
    launch(name, stream, block_of_rows_kernel<T, Usual, most>, blocks(rows), threads, 0, in, out,
           rows);
  }
}

}  // namespace

template <class T>
void qk_norm_rope_quant(Stream stream, const QkHeads<T>& in, const QuantisedHeads& out,
                        const QkOptions& options) {
  check_qk_norm_rope_quant(in, out, options);
  if (in.rows() == 0 || in.dh() == 0) return;
  const DeviceHeads<T> heads(in, options.eps);
  const DeviceOutputs outputs(out, in);
  const bool held = HeldInputs<T>::fits(in) && HeldOutputs::fits(outputs) &&
                    with_held_width(in.dh(), [&]<int dh>() {
                      const auto launch = in.rope.rope_dim() == dh ? launch_held<T, dh, true>
                                                                   : launch_held<T, dh, false>;
                      launch(stream, HeldInputs<T>(heads), HeldOutputs(outputs), options);
                    });
  if (held) return;
  const std::uint32_t rows = rows_per_block(options, heads.heads);
  launch("qk_norm_rope_quant", stream, any_heads_kernel<T>,
         blocks_for("rows", (in.rows() + rows - 1) / rows), std::min(rows, 8u) * 32, 0, heads,
         outputs, rows);
}

void require_positions(Stream stream, const RopeTables<float>& rope) {
  opbook::gpu::synchronise(stream);
  RopeTables<float> on_host = rope;
  rope.positions.visit([&]<class Index>(Row<const Index> positions) {
    std::vector<Index> fetched(static_cast<std::size_t>(positions.size));
    opbook::gpu::copy_to_host(reinterpret_cast<std::byte*>(fetched.data()),
                              reinterpret_cast<const std::byte*>(positions.data),
                              positions.size * static_cast<std::int64_t>(sizeof(Index)));
    on_host.positions = Row<const Index>{fetched.data(), positions.size};
    require_positions_within(on_host);
  });
}

#define OPBOOK_INSTANTIATE(T)                                                           \
  template void qk_norm_rope_quant<T>(Stream, const QkHeads<T>&, const QuantisedHeads&, \
                                      const QkOptions&);
OPBOOK_INSTANTIATE(float16)
OPBOOK_INSTANTIATE(bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch28::gpu
