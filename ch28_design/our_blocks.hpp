#pragma once

// How design D, our own, cuts the rows into blocks: for the ledger and for the kernels alike.

#include <bit>
#include <cstdint>

namespace opbook::ch28 {

/// Whether lanes hold a head of this width, of which `turned` columns turn, in registers: a lane's
/// neighbouring pairs, eight at most, turn all or none. Any other goes element by element, eight
/// rows a block.
constexpr bool is_held(std::int64_t head_dim, std::int64_t turned) {
  const bool width =
      head_dim == 64 || head_dim == 96 || head_dim == 128 || head_dim == 192 || head_dim == 256;
  return width && turned % 16 == 0;
}
inline constexpr std::int64_t our_unheld_rows = 8;

/// Pairs of its columns that a lane holds: `of_power` where the width is a power of two, six of 96
/// and of 192 columns. So the lanes that share a head are always a power of two, and none is idle.
constexpr int pairs_of_a_lane(std::int64_t head_dim, int of_power) {
  return std::has_single_bit(static_cast<std::uint64_t>(head_dim)) ? of_power : 6;
}
constexpr std::int64_t lanes_of_a_head(std::int64_t head_dim, int of_power) {
  return head_dim / 2 / pairs_of_a_lane(head_dim, of_power);
}

/// Usually a block is a warp that takes heads of one token, all of q or all of k: two for each team
/// of lanes, of eight pairs a lane or six.
inline constexpr int our_pairs = 8, our_steps = 2;
constexpr std::int64_t our_heads_of_a_block(std::int64_t head_dim) {
  return our_steps * 32 / lanes_of_a_head(head_dim, our_pairs);
}

/// Rows that do not fill the card: a block is a warp, of four pairs a lane or six, and takes rows
/// as they come, one for each team. (With two warps a block one token took 3 % longer, eight
/// took 9.)
inline constexpr std::int64_t our_few_rows = 4096;
inline constexpr int our_few_pairs = 4, our_few_threads = 32;
constexpr std::int64_t our_few_rows_of_a_block(std::int64_t head_dim) {
  return our_few_threads / lanes_of_a_head(head_dim, our_few_pairs);
}

}  // namespace opbook::ch28
