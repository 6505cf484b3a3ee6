#include "ch28_design/ledger.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>

#include "ch28_design/budget.hpp"
#include "common/error.hpp"
#include "common/table.hpp"

namespace opbook::ch28 {
namespace {

auto begins(const std::string& text) {
  return Catch::Matchers::MessageMatches(Catch::Matchers::StartsWith(text));
}

template <class Change>
Arguments with(Change change) {
  Arguments arguments;
  change(arguments);
  return arguments;
}

/// What the default operator needs, by hand.
constexpr std::int64_t rows = 4096 * 40;
constexpr std::int64_t elements = rows * 128;
constexpr std::int64_t payload = elements * 2 + elements + rows * 4;

}  // namespace

TEST_CASE("the payload is the heads in, the codes and a scale a row out", "[ledger]") {
  for (const Convention convention : {Convention::book, Convention::exact}) {
    const OperatorLedger op = operator_ledger({}, convention);
    CHECK(op.rows == rows);
    CHECK(op.elements == elements);
    CHECK(op.payload_bytes == payload);
    CHECK(op.write_bytes == elements + 4 * rows);
    CHECK(op.read_bytes + op.write_bytes == op.ideal_bytes);
  }
}

TEST_CASE("the exact operator does 7 an element, 3 a turned column and 5 a row", "[ledger]") {
  const auto flops = [](std::int64_t rope_dim) {
    const Arguments a = with([=](Arguments& a) { a.rope_dim = rope_dim; });
    return operator_ledger(a, Convention::exact).flops;
  };
  CHECK(flops(128) == 10 * elements + 5 * rows);
  CHECK(flops(64) == 7 * elements + 3 * 64 * rows + 5 * rows);
  CHECK(operator_ledger({}, Convention::book).flops == 10 * elements + 3 * rows);
}

TEST_CASE("a narrower rotation takes narrower tables", "[ledger]") {
  const Arguments a = with([](Arguments& a) { a.rope_dim = 32; });
  CHECK(operator_ledger(a, Convention::exact).ideal_lookup_bytes == 2 * 256 + 4096 * 4 * 32);
  const DesignLedger c = design_ledger(a, Design::C, Convention::exact);
  CHECK(c.table_bytes == 4096 * 4 * 32);
  CHECK(c.on_chip_bytes == 7 * 40 * 128 + 4 * 40 + 2 * 256 + 4 * 32);
}

TEST_CASE("with heads of one kind only its weight is read", "[ledger]") {
  for (const bool no_q : {false, true}) {
    const Arguments a = with([&](Arguments& a) { (no_q ? a.q_heads : a.kv_heads) = 0; });
    CHECK(operator_ledger(a, Convention::exact).ideal_lookup_bytes == 256 + 4096 * 512);
    CHECK(operator_ledger(a, Convention::book).ideal_lookup_bytes == 2 * 256 + 4096 * 1024);
    const DesignLedger c = design_ledger(a, Design::C, Convention::exact);
    CHECK(c.weight_reads == c.grid);
    CHECK(c.weight_bytes == 4096 * 256);
  }
}

TEST_CASE("no design moves less than the ideal, and one block for all moves just that",
          "[ledger]") {
  for (const std::int64_t block : {1, 2, 7, 8, 39, 40, 41, 64, 1000, 200000}) {
    const Arguments a = with([=](Arguments& a) { a.rows_per_block = block; });
    const std::int64_t ideal = operator_ledger(a, Convention::exact).ideal_bytes;
    for (const DesignLedger& design : design_ledgers(a, Convention::exact)) {
      CHECK(design.total_bytes >= ideal);
      if (design.grid == 1) CHECK(design.total_bytes == ideal);
    }
  }
}

TEST_CASE("B with one row a block is A, and with a token's rows it is C", "[ledger]") {
  const auto same = [](const DesignLedger& b, const DesignLedger& other) {
    CHECK(b.total_bytes == other.total_bytes);
    CHECK(b.on_chip_bytes == other.on_chip_bytes);
    CHECK(b.grid == other.grid);
  };
  for (const Convention convention : {Convention::book, Convention::exact}) {
    const Arguments one = with([](Arguments& a) { a.rows_per_block = 1; });
    same(design_ledger(one, Design::B, convention), design_ledger(one, Design::A, convention));
    const Arguments token = with([](Arguments& a) { a.rows_per_block = 40; });
    same(design_ledger(token, Design::B, convention), design_ledger(token, Design::C, convention));
  }
}

TEST_CASE("D deals out each token's heads of one kind, and few rows as they come", "[ledger]") {
  const Arguments many = with([](Arguments& a) {
    a.tokens = 1000;
    a.q_heads = 28;
    a.kv_heads = 4;
  });
  const DesignLedger dealt = design_ledger(many, Design::D, Convention::exact);
  CHECK(dealt.rows_per_block == 8);
  CHECK(dealt.grid == 1000 * (4 + 1));  // 28 heads by eights, and 4
  CHECK(dealt.weight_reads == dealt.grid);
  CHECK(dealt.table_reads == dealt.grid);
  CHECK(dealt.weights_held == 1);
  CHECK(dealt.tables_held == 1);
  const Arguments three = with([](Arguments& a) { a.q_heads = 3, a.kv_heads = 1; });
  const DesignLedger not_full = design_ledger(three, Design::D, Convention::exact);
  CHECK(not_full.rows_per_block == 3);
  CHECK(not_full.grid == 4096 * (1 + 1));
  const Arguments few = with([](Arguments& a) { a.tokens = 3; });
  const DesignLedger flat = design_ledger(few, Design::D, Convention::exact);
  CHECK(flat.rows_per_block == 2);
  CHECK(flat.grid == 3 * 40 / 2);
  // Of 96 and 192 columns a lane holds six pairs, of many rows and of few.
  for (const auto& [head_dim, lanes] : {std::pair{96, 8}, {192, 16}}) {
    for (const std::int64_t tokens : {1000, 3}) {
      const Arguments wide = with([&, head_dim = head_dim](Arguments& a) {
        a.tokens = tokens;
        a.head_dim = head_dim;
      });
      const DesignLedger ledger = design_ledger(wide, Design::D, Convention::exact);
      CHECK(ledger.rows_per_block == (tokens == 3 ? 1 : 2) * 32 / lanes);
    }
  }
  const Arguments unheld = with([](Arguments& a) { a.head_dim = 80; });
  CHECK(design_ledger(unheld, Design::D, Convention::exact).grid == 4096 * 40 / 8);
  const Arguments odd = with([](Arguments& a) {  // of one lane half the pairs turn
    a.q_heads = 30, a.kv_heads = 10, a.rope_dim = 40;
  });
  CHECK(design_ledger(odd, Design::D, Convention::exact).grid == 4096 * 40 / 8);
  const Arguments few_odd = with([](Arguments& a) { a.tokens = 10, a.rope_dim = 40; });
  CHECK(design_ledger(few_odd, Design::D, Convention::exact).grid == 10 * 40 / 8);
}

TEST_CASE("a ledger refuses what makes no sense, and names it", "[ledger]") {
  const auto refused = [](auto change, const std::string& text,
                          Convention convention = Convention::exact) {
    CHECK_THROWS_MATCHES(operator_ledger(with(change), convention), ArgumentError, begins(text));
  };
  refused([](Arguments& a) { a.tokens = 0; }, "tokens: got 0; allowed: ");
  refused([](Arguments& a) { a.tokens = -1; }, "tokens: got -1; allowed: ");
  refused([](Arguments& a) { a.q_heads = -1; }, "q_heads: got -1; allowed: ");
  refused([](Arguments& a) { a.q_heads = a.kv_heads = 0; }, "q_heads, kv_heads: got 0 and 0");
  refused([](Arguments& a) { a.head_dim = 127; }, "head_dim: got 127; allowed: an even number");
  refused([](Arguments& a) { a.head_dim = 0; }, "head_dim: got 0; allowed: an even number");
  refused([](Arguments& a) { a.rows_per_block = 0; }, "rows_per_block: got 0; allowed: ");
  refused([](Arguments& a) { a.sm_count = 0; }, "sm_count: got 0; allowed: ");
  refused([](Arguments& a) { a.bandwidth_gbs = -1; }, "bandwidth_gbs: got -1; allowed: ");
  refused([](Arguments& a) { a.bandwidth_gbs = std::numeric_limits<double>::quiet_NaN(); },
          "bandwidth_gbs: got nan; allowed: ");
  refused([](Arguments& a) { a.on_chip_kb = std::numeric_limits<double>::infinity(); },
          "on_chip_kb: got inf; allowed: ");
  refused([](Arguments& a) { a.rope_dim = 63; }, "rope_dim: got 63; allowed: an even number");
  refused([](Arguments& a) { a.rope_dim = 130; }, "rope_dim: got 130; allowed: an even number");
  refused([](Arguments& a) { a.rope_dim = 128; }, "rope_dim: got 128; allowed: none under",
          Convention::book);
  refused([](Arguments& a) { a.tokens = INT64_MAX; }, "sizes: ");
  refused([](Arguments& a) { a.head_dim = INT64_MAX - 1; }, "sizes: ");
  refused([](Arguments& a) { a.q_heads = INT64_MAX; }, "sizes: ");
}

TEST_CASE("an SM holds as many blocks as its memory and the hardware let it", "[budget]") {
  CHECK(resident_blocks(37024, 192 * 1024) == 5);
  CHECK(resident_blocks(37024, 228 * 1024) == 6);
  CHECK(resident_blocks(1668, 228 * 1024) == most_resident_blocks);
  CHECK(resident_blocks(228 * 1024, 228 * 1024) == 0);
}

TEST_CASE("a block that fills its budget is resident, and one byte more is over it", "[budget]") {
  Arguments a;
  DesignLedger design = design_ledger(a, Design::C, Convention::exact);
  a.on_chip_kb = static_cast<double>(design.on_chip_bytes) / 1024;
  const Budget budget = budget_of(design, a, Convention::exact);
  CHECK(budget.fits);
  CHECK(budget.resident_blocks == 1);
  CHECK(budget.waves == 32);  // 4096 blocks on 132 SMs
  ++design.on_chip_bytes;
  const Budget over = budget_of(design, a, Convention::exact);
  CHECK_FALSE(over.fits);
  CHECK(over.waves == 0);
}

TEST_CASE("a cache that holds what runs at once keeps the re-reads from memory", "[budget]") {
  const Arguments a;
  const DesignLedger design = design_ledger(a, Design::A, Convention::exact);
  const Budget budget = budget_of(design, a, Convention::exact);
  const std::int64_t ideal = operator_ledger(a, Convention::exact).ideal_bytes;
  const CacheLevel large = cache_level(design, budget, a, 60 << 20);
  CHECK(large.holds);
  CHECK(large.dram_bytes == ideal);
  CHECK(large.window_bytes < 4e6);
  const CacheLevel small = cache_level(design, budget, a, 64 << 10);
  CHECK_FALSE(small.holds);
  CHECK(small.dram_bytes == design.total_bytes);
}

}  // namespace opbook::ch28
