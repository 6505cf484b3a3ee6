#include "ch28_design/ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ch28_design/block_counts.hpp"
#include "ch28_design/our_blocks.hpp"
#include "common/checked.hpp"
#include "common/error.hpp"

namespace opbook::ch28 {
namespace {

// Bytes of an element: bfloat16 in, e4m3 out, float32 for scales, tables and what is held on chip.
constexpr std::int64_t in_bytes = 2;
constexpr std::int64_t out_bytes = 1;
constexpr std::int64_t scale_bytes = 4;
constexpr std::int64_t table_element_bytes = 4;
constexpr std::int64_t held_bytes = 4;

void require_at_least(std::string_view name, std::int64_t value, std::int64_t least) {
  if (value >= least) return;
  throw ArgumentError(fmt::format("{}: got {}; allowed: a whole number {}", name, value,
                                  least == 0 ? "from zero up" : "above zero"));
}

void require_positive(std::string_view name, double value) {
  if (std::isfinite(value) && value > 0) return;
  throw ArgumentError(fmt::format("{}: got {}; allowed: a finite number above zero", name, value));
}

/// Of cos and sin of one token: at full width in the book, of a value a pair in truth.
std::int64_t table_row_bytes(const Arguments& a, Convention convention) {
  const std::int64_t columns = convention == Convention::book ? a.head_dim : a.turned() / 2;
  return checked_mul({2, columns, table_element_bytes});
}

std::int64_t weight_row_bytes(const Arguments& a) {
  return checked_mul({a.head_dim, in_bytes});
}

/// Kinds of head that there are; the book charges both weights whether there are or not.
std::int64_t kinds(const Arguments& a, Convention convention) {
  if (convention == Convention::book) return 2;
  return (a.q_heads > 0 ? 1 : 0) + (a.kv_heads > 0 ? 1 : 0);
}

/// The square and its sum, mean, eps and rsqrt, times rstd and weight; turned; absolute values and
/// their maximum, floor and division, and a division an element. The book leaves out eps and floor.
std::int64_t flops(const Arguments& a, std::int64_t rows, Convention convention) {
  const std::int64_t a_row = convention == Convention::book ? 3 : 5;
  const std::int64_t turning = convention == Convention::book ? checked_mul({6, a.head_dim / 2})
                                                              : checked_mul({3, a.turned()});
  return checked_add({checked_mul({7, rows, a.head_dim}), checked_mul({rows, turning}),
                      checked_mul({a_row, rows})});
}

/// Whether design D deals out the heads of each token for itself (our_blocks.hpp).
bool is_dealt_out(const Arguments& a, std::int64_t rows) {
  return is_held(a.head_dim, a.turned()) && rows > our_few_rows;
}

std::int64_t rows_of(Design design, const Arguments& a, std::int64_t rows) {
  switch (design) {
    case Design::A:
      return 1;
    case Design::B:
      return a.rows_per_block;
    case Design::C:
      return a.heads();
    case Design::D:
      break;
  }
  if (!is_held(a.head_dim, a.turned())) return our_unheld_rows;
  if (!is_dealt_out(a, rows)) return our_few_rows_of_a_block(a.head_dim);
  return std::min(our_heads_of_a_block(a.head_dim), std::max(a.q_heads, a.kv_heads));
}

/// Blocks of one kind of head of one token.
BlockCounts counts_dealt_out(const Arguments& a, std::int64_t rows_per_block) {
  BlockCounts counts;
  counts.grid = checked_mul(
      {a.tokens, ceil_div(a.q_heads, rows_per_block) + ceil_div(a.kv_heads, rows_per_block)});
  counts.weight_reads = counts.grid;
  counts.table_reads = counts.grid;
  counts.most_kinds = 1;
  counts.most_tokens = 1;
  return counts;
}

/// The book's counts: blocks begin with a token's first row, and each takes both weights.
BlockCounts counts_by_the_book(const Arguments& a, std::int64_t rows, std::int64_t rows_per_block) {
  BlockCounts counts;
  counts.grid = ceil_div(rows, rows_per_block);
  counts.weight_reads = checked_mul({2, counts.grid});
  counts.table_reads = checked_mul({ceil_div(a.heads(), rows_per_block), a.tokens});
  counts.most_kinds = 0;
  counts.most_tokens = 1;
  return counts;
}

}  // namespace

std::string_view name_of(Design design) {
  constexpr std::string_view names[] = {"A", "B", "C", "D"};
  return names[static_cast<int>(design)];
}

std::int64_t Arguments::heads() const {
  return checked_add({q_heads, kv_heads});
}

void require_valid(const Arguments& a, Convention convention) {
  require_at_least("tokens", a.tokens, 1);
  require_at_least("q_heads", a.q_heads, 0);
  require_at_least("kv_heads", a.kv_heads, 0);
  if (a.q_heads == 0 && a.kv_heads == 0) {
    throw ArgumentError("q_heads, kv_heads: got 0 and 0; allowed: one of them above zero");
  }
  if (a.head_dim < 2 || a.head_dim % 2 != 0) {
    throw ArgumentError(
        fmt::format("head_dim: got {}; allowed: an even number above zero", a.head_dim));
  }
  if (a.rope_dim) {
    const std::int64_t rd = *a.rope_dim;
    if (convention == Convention::book) {
      throw ArgumentError(
          fmt::format("rope_dim: got {}; allowed: none under the book's convention, which turns "
                      "all of head_dim",
                      rd));
    }
    if (rd < 2 || rd % 2 != 0 || rd > a.head_dim) {
      throw ArgumentError(
          fmt::format("rope_dim: got {}; allowed: an even number from 2 to head_dim"
                      " = {}",
                      rd, a.head_dim));
    }
  }
  require_at_least("rows_per_block", a.rows_per_block, 1);
  require_positive("bandwidth_gbs", a.bandwidth_gbs);
  require_at_least("sm_count", a.sm_count, 1);
  require_positive("on_chip_kb", a.on_chip_kb);
}

double OperatorLedger::ai() const {
  return ratio(flops, ideal_bytes);
}

OperatorLedger operator_ledger(const Arguments& a, Convention convention) {
  require_valid(a, convention);
  OperatorLedger ledger;
  ledger.rows = checked_mul({a.tokens, a.heads()});
  ledger.elements = checked_mul({ledger.rows, a.head_dim});
  ledger.flops = flops(a, ledger.rows, convention);
  const std::int64_t in = checked_mul({ledger.elements, in_bytes});
  ledger.write_bytes = checked_add(
      {checked_mul({ledger.elements, out_bytes}), checked_mul({ledger.rows, scale_bytes})});
  ledger.payload_bytes = checked_add({in, ledger.write_bytes});
  ledger.ideal_lookup_bytes =
      checked_add({checked_mul({kinds(a, convention), weight_row_bytes(a)}),
                   checked_mul({a.tokens, table_row_bytes(a, convention)})});
  ledger.read_bytes = checked_add({in, ledger.ideal_lookup_bytes});
  ledger.ideal_bytes = checked_add({ledger.payload_bytes, ledger.ideal_lookup_bytes});
  return ledger;
}

DesignLedger design_ledger(const Arguments& a, Design design, Convention convention) {
  const OperatorLedger op = operator_ledger(a, convention);
  const std::int64_t block = rows_of(design, a, op.rows);
  const auto counted = [&] {
    if (convention == Convention::book) return counts_by_the_book(a, op.rows, block);
    if (design == Design::D && is_dealt_out(a, op.rows)) return counts_dealt_out(a, block);
    return count_blocks({a.tokens, a.q_heads, a.kv_heads}, block);
  };
  const BlockCounts counts = counted();
  DesignLedger ledger;
  ledger.design = design;
  ledger.rows_per_block = block;
  ledger.grid = counts.grid;
  ledger.weight_reads = counts.weight_reads;
  ledger.table_reads = counts.table_reads;
  ledger.payload_bytes = op.payload_bytes;
  ledger.weight_bytes = checked_mul({counts.weight_reads, weight_row_bytes(a)});
  ledger.table_bytes = checked_mul({counts.table_reads, table_row_bytes(a, convention)});
  ledger.lookup_bytes = checked_add({ledger.weight_bytes, ledger.table_bytes});
  ledger.total_bytes = checked_add({op.payload_bytes, ledger.lookup_bytes});
  ledger.weights_held = counts.most_kinds;
  ledger.tables_held = counts.most_tokens;
  // Rows as they come, as codes and in float32, their scales; weights and tables.
  ledger.on_chip_bytes = checked_add(
      {checked_mul({block, a.head_dim, in_bytes + out_bytes + held_bytes}),
       checked_mul({block, scale_bytes}), checked_mul({counts.most_kinds, weight_row_bytes(a)}),
       checked_mul({counts.most_tokens, table_row_bytes(a, convention)})});
  return ledger;
}

std::vector<DesignLedger> design_ledgers(const Arguments& arguments, Convention convention) {
  std::vector<DesignLedger> ledgers;
  for (const Design design : all_designs) {
    ledgers.push_back(design_ledger(arguments, design, convention));
  }
  return ledgers;
}

}  // namespace opbook::ch28
