#include "ch28_design/block_counts.hpp"

#include <numeric>

#include "common/checked.hpp"

namespace opbook::ch28 {
namespace {

using Wide = __int128;

/// floor(b / m) + floor((a + b) / m) + ... + floor(((n - 1) a + b) / m) for a, b >= 0, by the steps
/// of Euclid's algorithm.
Wide floor_sum(Wide n, Wide m, Wide a, Wide b) {
  Wide sum = 0;
  while (true) {
    sum += (n - 1) * n / 2 * (a / m) + n * (b / m);
    a %= m;
    b %= m;
    const Wide last = a * n + b;
    if (last < m) return sum;
    n = last / m;
    b = last % m;
    std::swap(m, a);
  }
}

/// Whole blocks that lie within one head segment of a token: `begin` rows into it, `length` long.
std::int64_t blocks_within(const RowOrder& order, std::int64_t rows_per_block, std::int64_t begin,
                           std::int64_t length) {
  if (length < rows_per_block) return 0;
  // Of a segment [s, s + length): floor((s + length) / R) - ceil(s / R), s = token * heads + begin.
  const Wide heads = order.heads(), block = rows_per_block;
  const Wide ends = floor_sum(order.tokens, block, heads, Wide(begin) + length);
  const Wide begins = floor_sum(order.tokens, block, heads, Wide(begin) + block - 1);
  return static_cast<std::int64_t>(ends - begins);
}

/// Pairs of a block and a token that share a row, among the first `rows` rows. Cutting them at the
/// edges of both makes that many pieces: blocks + tokens - 1, less the edges that coincide, which
/// are multiples of both lengths.
std::int64_t blocks_times_tokens(std::int64_t rows, std::int64_t heads,
                                 std::int64_t rows_per_block) {
  const Wide both = Wide(heads / std::gcd(heads, rows_per_block)) * rows_per_block;
  const auto coinciding = static_cast<std::int64_t>((Wide(rows) - 1) / both);
  return ceil_div(rows, rows_per_block) + ceil_div(rows, heads) - 1 - coinciding;
}

std::int64_t weight_reads(const RowOrder& order, std::int64_t rows, std::int64_t rows_per_block) {
  const std::int64_t grid = ceil_div(rows, rows_per_block);
  if (order.q_heads == 0 || order.kv_heads == 0) return grid;
  std::int64_t of_one_kind = blocks_within(order, rows_per_block, 0, order.q_heads) +
                             blocks_within(order, rows_per_block, order.q_heads, order.kv_heads);
  const std::int64_t in_last = rows % rows_per_block;  // a short block, at the end of a token
  if (in_last > 0 && in_last <= order.kv_heads) ++of_one_kind;
  return checked_add({grid, grid - of_one_kind});
}

std::int64_t most_tokens(std::int64_t rows, std::int64_t heads, std::int64_t rows_per_block) {
  const std::int64_t whole_blocks = rows / rows_per_block;
  if (whole_blocks == 0) return ceil_div(rows, heads);
  // Whole blocks touch as many tokens as they must, or, where they lie badly, one more.
  const std::int64_t least = ceil_div(rows_per_block, heads);
  const std::int64_t touched =
      blocks_times_tokens(whole_blocks * rows_per_block, heads, rows_per_block);
  return Wide(touched) > Wide(least) * whole_blocks ? least + 1 : least;
}

}  // namespace

BlockCounts count_blocks(const RowOrder& order, std::int64_t rows_per_block) {
  const std::int64_t heads = checked_add({order.q_heads, order.kv_heads});
  const std::int64_t rows = checked_mul({order.tokens, heads});
  BlockCounts counts;
  counts.grid = ceil_div(rows, rows_per_block);
  counts.weight_reads = weight_reads(order, rows, rows_per_block);
  counts.table_reads = blocks_times_tokens(rows, heads, rows_per_block);
  counts.most_tokens = most_tokens(rows, heads, rows_per_block);
  // A block that crosses from token to token holds rows of every kind.
  const bool both = order.q_heads > 0 && order.kv_heads > 0 && counts.weight_reads > counts.grid;
  counts.most_kinds = both ? 2 : 1;
  return counts;
}

}  // namespace opbook::ch28
