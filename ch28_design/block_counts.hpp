#pragma once

#include <cstdint>

namespace opbook::ch28 {

/// a / b, rounded up; a from zero, b from one.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0);
}

/// The rows of the operator in memory: token after token, each with its q heads, then its kv heads.
struct RowOrder {
  std::int64_t tokens = 0;
  std::int64_t q_heads = 0;
  std::int64_t kv_heads = 0;

  std::int64_t heads() const { return q_heads + kv_heads; }
};

/// What blocks of consecutive rows hold. A flat grid knows no tokens: blocks begin wherever the one
/// before ends, and the last one may be short.
struct BlockCounts {
  std::int64_t grid = 0;
  std::int64_t weight_reads = 0;  ///< kinds of head (q, k) in a block, summed over the blocks
  std::int64_t table_reads = 0;   ///< tokens that a block touches, summed over the blocks
  std::int64_t most_kinds = 0;    ///< in the fullest block
  std::int64_t most_tokens = 0;   ///< in the fullest block
};

/// Counted in closed form: the time does not grow with the sizes. All sizes above zero, but for one
/// of the head counts; throws ArgumentError where tokens * heads passes int64.
BlockCounts count_blocks(const RowOrder& order, std::int64_t rows_per_block);

}  // namespace opbook::ch28
