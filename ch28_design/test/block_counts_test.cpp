#include "ch28_design/block_counts.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>

#include "common/error.hpp"

namespace opbook::ch28 {
namespace {

/// The same by looking at every row.
BlockCounts counted(const RowOrder& order, std::int64_t rows_per_block) {
  const std::int64_t rows = order.tokens * order.heads();
  BlockCounts counts;
  std::int64_t fullest = -1;
  for (std::int64_t begin = 0; begin < rows; begin += rows_per_block) {
    std::set<bool> kinds;
    std::set<std::int64_t> tokens;
    for (std::int64_t row = begin; row < std::min(rows, begin + rows_per_block); ++row) {
      kinds.insert(row % order.heads() < order.q_heads);
      tokens.insert(row / order.heads());
    }
    const auto kind_count = static_cast<std::int64_t>(kinds.size());
    const auto token_count = static_cast<std::int64_t>(tokens.size());
    ++counts.grid;
    counts.weight_reads += kind_count;
    counts.table_reads += token_count;
    if (token_count * 1000 + kind_count > fullest) {
      fullest = token_count * 1000 + kind_count;
      counts.most_tokens = token_count;
      counts.most_kinds = kind_count;
    }
  }
  return counts;
}

}  // namespace

TEST_CASE("blocks are counted in closed form as by looking at every row", "[block_counts]") {
  for (const std::int64_t tokens : {1, 2, 3, 7, 20}) {
    for (std::int64_t q_heads = 0; q_heads <= 9; ++q_heads) {
      for (std::int64_t kv_heads = q_heads == 0 ? 1 : 0; kv_heads <= 6; ++kv_heads) {
        for (std::int64_t block = 1; block <= 40; ++block) {
          const RowOrder order{tokens, q_heads, kv_heads};
          const BlockCounts expected = counted(order, block), actual = count_blocks(order, block);
          INFO(tokens << " tokens, " << q_heads << " + " << kv_heads << " heads, " << block);
          REQUIRE(actual.grid == expected.grid);
          REQUIRE(actual.weight_reads == expected.weight_reads);
          REQUIRE(actual.table_reads == expected.table_reads);
          REQUIRE(actual.most_tokens == expected.most_tokens);
          REQUIRE(actual.most_kinds == expected.most_kinds);
        }
      }
    }
  }
}

TEST_CASE("the closed form takes sizes that no loop would come to the end of", "[block_counts]") {
  const std::int64_t tokens = std::int64_t{1} << 40;
  const BlockCounts one = count_blocks({tokens, 32, 8}, 1);
  CHECK(one.grid == 40 * tokens);
  CHECK(one.weight_reads == 40 * tokens);
  CHECK(one.table_reads == 40 * tokens);
  const BlockCounts seven = count_blocks({7 * (tokens / 8), 32, 8}, 7);
  const BlockCounts few = counted({7, 32, 8}, 7);  // after lcm(7, 40) rows all begins again
  CHECK(seven.grid == few.grid * (tokens / 8));
  CHECK(seven.weight_reads == few.weight_reads * (tokens / 8));
  CHECK(seven.table_reads == few.table_reads * (tokens / 8));
  CHECK_THROWS_AS(count_blocks({tokens, tokens, 8}, 1), ArgumentError);
}

}  // namespace opbook::ch28
