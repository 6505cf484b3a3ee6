#include "ch28_design/errata.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ch28_design/budget.hpp"
#include "ch28_design/ledger.hpp"
#include "ch28_design/ledger_command.hpp"
#include "ch28_design/plans.hpp"
#include "common/error.hpp"
#include "common/machine.hpp"
#include "common/table.hpp"

namespace opbook::ch28 {
namespace {

constexpr Convention book = Convention::book;
constexpr Convention exact = Convention::exact;
constexpr Design book_designs[] = {Design::A, Design::B, Design::C};

Arguments with_rows_per_block(std::int64_t rows) {
  Arguments arguments;
  arguments.rows_per_block = rows;
  return arguments;
}

std::string label_of(const DesignLedger& design) {
  return fmt::format("{}, {} row{} a block", name_of(design.design), design.rows_per_block,
                     design.rows_per_block == 1 ? "" : "s");
}

/// An SM as the book would have it, if its budget a block is all of an SM.
constexpr std::int64_t book_sm_bytes = 192 * 1024;

// The entries.

Erratum tables_at_full_width() {
  Figures figures{"", {{"full width", Unit::megabytes}, {"half width", Unit::megabytes}}, {}};
  const OperatorLedger in_book = operator_ledger({}, book), right = operator_ledger({}, exact);
  figures.lines.push_back({"the ideal", {in_book.ideal_bytes, right.ideal_bytes}});
  for (const Design design : book_designs) {
    const DesignLedger ledger = design_ledger({}, design, book);
    figures.lines.push_back(
        {label_of(ledger), {ledger.total_bytes, ledger.total_bytes - ledger.table_bytes / 2}});
  }
  return {
      7, "cos and sin are stored twice",
      "A token's tables have a cosine and a sine for each of head_dim columns.",
      "Columns p and p + head_dim / 2 turn by one angle: tables of half width hold all there is. "
      "(Chapter 13 charges half width in one plan, and once for each head.)",
      figures};
}

Erratum both_weights_a_block() {
  Figures figures{"",
                  {{"both weights", Unit::megabytes},
                   {"vs ideal", Unit::ratio},
                   {"those it needs", Unit::megabytes},
                   {"right vs ideal", Unit::ratio}},
                  {}};
  const std::int64_t ideal = operator_ledger({}, book).ideal_bytes;
  for (const Design design : book_designs) {
    const DesignLedger ledger = design_ledger({}, design, book);
    const std::int64_t right =
        ledger.total_bytes - ledger.weight_bytes + design_ledger({}, design, exact).weight_bytes;
    figures.lines.push_back(
        {label_of(ledger),
         {ledger.total_bytes, ratio(ledger.total_bytes, ideal), right, ratio(right, ideal)}});
  }
  return {12, "A block is charged weights that it does not need",
          "Every block reads the q weight and the k weight.",
          "A block with rows of one kind needs one of them. Here alone, on the book's full-width "
          "tables.",
          figures};
}

Erratum blocks_straddle_tokens() {
  Figures figures{"rows a block",
                  {{"reads a token, book", Unit::ratio},
                   {"right", Unit::ratio},
                   {"grid, flat", Unit::count},
                   {"grid, aligned", Unit::count}},
                  {}};
  for (const std::int64_t rows : {7, 8, 64}) {
    const Arguments a = with_rows_per_block(rows);
    const DesignLedger in_book = design_ledger(a, Design::B, book);
    const DesignLedger right = design_ledger(a, Design::B, exact);
    const std::int64_t aligned = a.tokens * ((a.heads() + rows - 1) / rows);
    figures.lines.push_back({std::to_string(rows),
                             {ratio(in_book.table_reads, a.tokens),
                              ratio(right.table_reads, a.tokens), right.grid, aligned}});
  }
  return {
      13, "Blocks are \"aligned to head groups\", and the grid is flat",
      "A token's table is read ceil(heads / rows a block) times, as if each token began a block "
      "of its own; but the grid is ceil(rows / rows a block).",
      "In a flat grid blocks straddle tokens, and such a block reads the tables of each token "
      "that it touches. An aligned grid has the book's reads, and more blocks.",
      figures};
}

Erratum on_chip_bytes_left_out() {
  Figures figures{"",
                  {{"book", Unit::bytes},
                   {"with weights and each token's table", Unit::bytes},
                   {"exact", Unit::bytes}},
                  {}};
  const auto add = [&](const Arguments& a, Design design) {
    const DesignLedger in_book = design_ledger(a, design, book);
    const DesignLedger right = design_ledger(a, design, exact);
    const std::int64_t weight_row = right.weight_bytes / right.weight_reads;
    const std::int64_t table_row = in_book.table_bytes / in_book.table_reads;
    const std::int64_t all = in_book.on_chip_bytes + right.weights_held * weight_row +
                             (right.tables_held - 1) * table_row;
    figures.lines.push_back({label_of(in_book), {in_book.on_chip_bytes, all, right.on_chip_bytes}});
  };
  add({}, Design::A);
  add({}, Design::B);
  add(with_rows_per_block(64), Design::B);
  add({}, Design::C);
  return {14, "On-chip bytes leave out weights and tables",
          "A block holds its rows, their scales and one token's cosines and sines.",
          "It holds the weights of the kinds of head in it too, and tables for every token that it "
          "straddles: three where 64 rows lie across tokens of 40. The second column is the book's "
          "with these added, the third has tables of half width.",
          figures};
}

Erratum resident_blocks_are_fixed() {
  Figures figures{"", {{"resident blocks an SM", Unit::count}, {"waves", Unit::count}}, {}};
  const Arguments a;
  const DesignLedger c = design_ledger(a, Design::C, book);
  const auto add = [&](std::string label, std::int64_t blocks) {
    const std::int64_t at_once = a.sm_count * blocks;
    figures.lines.push_back({std::move(label), {blocks, (c.grid + at_once - 1) / at_once}});
  };
  add("whatever a block holds: the book's", book_resident_blocks);
  add(fmt::format("C in an SM of {} KB", book_sm_bytes / 1024),
      resident_blocks(c.on_chip_bytes, book_sm_bytes));
  const Machine h200 = load_machine("h200");
  add(fmt::format("C in an SM of one {}, {} KB", h200.name, h200.on_chip_bytes_per_sm / 1024),
      resident_blocks(c.on_chip_bytes, h200.on_chip_bytes_per_sm));
  return {15, "Eight resident blocks, whatever a block holds",
          "An SM has eight blocks at once, so C runs in four waves.",
          fmt::format("An SM holds as many blocks as its memory does, {} bytes of it reserved for "
                      "each, and {} at most. Registers may allow fewer.",
                      reserved_bytes_per_block, most_resident_blocks),
          figures};
}

Erratum re_reads_are_charged_to_memory() {
  const Machine h200 = load_machine("h200");
  const Arguments a;
  Figures figures{"",
                  {{"by block", Unit::megabytes},
                   {"has to stay in the L2", Unit::megabytes},
                   {"then at DRAM", Unit::megabytes}},
                  {}};
  for (const Design design : book_designs) {
    const DesignLedger ledger = design_ledger(a, design, exact);
    const Budget budget = budget_of(ledger, a, exact, h200);
    const CacheLevel level = cache_level(ledger, budget, a, h200.l2_bytes);
    figures.lines.push_back(
        {label_of(ledger),
         {ledger.total_bytes, static_cast<std::int64_t>(level.window_bytes), level.dram_bytes}});
  }
  figures.lines.push_back({fmt::format("L2 of one {}", h200.name),
                           {std::monostate(), h200.l2_bytes, std::monostate()}});
  return {16, "Re-reads of tables are charged to DRAM",
          "A's floor is the time that all bytes of all its blocks take at DRAM, 70 us.",
          "What blocks read again was read by their neighbours just before, and is in the L2: DRAM "
          "sees the ideal bytes, and A's floor is C's. `cache` replays how large a cache has to be "
          "for that, hardware counters decide.",
          figures};
}

/// What one H200 moved of large buffers, GB/s: triad of 4 GB, a device copy of 64 MB.
constexpr double measured_triad_gbs = 3978;
constexpr double measured_copy_gbs = 3334;

Erratum one_bandwidth_for_any_mix() {
  const OperatorLedger op = operator_ledger({}, book);
  Figures figures{"", {{"GB/s", Unit::ratio}, {"memory roof", Unit::microseconds}}, {}};
  const auto add = [&](std::string label, double gbs) {
    figures.lines.push_back({std::move(label), {gbs, time_us(op.ideal_bytes, gbs)}});
  };
  add("data sheet of the H200", load_machine("h200").bandwidth_for("peak"));
  add("the book's", Arguments().bandwidth_gbs);
  add("triad, measured on 4 GB", measured_triad_gbs);
  add("copy, measured on 64 MB", measured_copy_gbs);
  return {17, "One bandwidth, whatever is read and written",
          "The roof is the ideal bytes at 4502.4 GB/s, a share of the data sheet's peak.",
          fmt::format("The operator reads {} bytes for each that it writes, and moves no more than "
                      "{} MB. Memory does not move such a mix at that rate, nor that little of it. "
                      "With --machine the exact convention takes the machine's own rate for two "
                      "reads a write.",
                      fixed(ratio(op.read_bytes, op.write_bytes), 2), megabytes(op.ideal_bytes)),
          figures};
}

Erratum sizes_to_refuse() {
  using Tries = std::vector<std::pair<std::string, std::string>>;
  const std::vector<Tries> all = {{{"--tokens", "0"}},
                                  {{"--tokens", "-4096"}},
                                  {{"--q-heads", "0"}, {"--kv-heads", "0"}},
                                  {{"--q-heads", "0"}},
                                  {{"--rows-per-block", "0"}},
                                  {{"--rows-per-block", "-8"}},
                                  {{"--bandwidth-gbs", "0"}},
                                  {{"--bandwidth-gbs", "-1"}},
                                  {{"--bandwidth-gbs", "nan"}},
                                  {{"--head-dim", "0"}},
                                  {{"--head-dim", "127"}},
                                  {{"--sm-count", "0"}},
                                  {{"--on-chip-kb", "8"}}};
  Figures figures{"ledger with", {{"exit code and answer", Unit::text}}, {}};
  for (const Tries& tries : all) {
    std::string label, answer;
    GivenFlags given;
    for (const auto& [flag, value] : tries) {
      label += fmt::format("{}{} {}", label.empty() ? "" : " ", flag, value);
      given[flag] = value;
    }
    try {
      const int code = ledger_subcommand().run(given).exit_code;
      answer = fmt::format("{}, accepted{}", code, code == 1 ? ", designs over budget" : "");
    } catch (const ArgumentError& refusal) {
      answer = fmt::format("2, {}", refusal.what());
    }
    figures.lines.push_back({std::move(label), {std::move(answer)}});
  }
  return {
      18, "What must be refused",
      "No tokens, no heads, no rows or no bandwidth end in a division by zero; negative tokens "
      "and rows, negative or NaN bandwidth, a head_dim of 0 and an sm_count below 1 are "
      "accepted; an odd head_dim drops an element; a design over its budget exits with 0.",
      "Each is refused on one line that names flag, value and what is allowed, exit code 2; one "
      "head count alone may be 0. A design over its budget is a FAIL, exit code 1, with all of "
      "the output.",
      figures};
}

Erratum lower_bound_is_none() {
  const Case plans = qk_norm_rope_quant_case({}, {});
  const Machine h200 = load_machine("h200");
  std::int64_t largest = 0;
  for (const Kernel& kernel : plans.unfused.kernels) {
    for (const Tensor& tensor : kernel.writes) largest = std::max(largest, tensor.bytes());
  }
  return {20,
          "\"A lower bound\" is not one",
          "A plan's bytes are a lower bound of its traffic.",
          "An intermediate that is still in the L2 when it is read never reaches DRAM. At the "
          "book's 4096 tokens each one of the unfused plan fits there: it may cost less than on "
          "paper, down to what the fused one moves. Measure beyond the cache, and count.",
          {"",
           {{"size", Unit::megabytes}},
           {{"largest intermediate of the unfused plan", {largest}},
            {fmt::format("L2 of one {}", h200.name), {h200.l2_bytes}},
            {"unfused, on paper", {plans.unfused.moved_bytes()}},
            {"least at DRAM: fused", {plans.fused.moved_bytes()}}}}};
}

Erratum weights_by_call_or_by_block() {
  const OperatorLedger op = operator_ledger({}, exact);
  Figures figures{"", {{"total", Unit::megabytes}, {"vs ideal", Unit::ratio}}, {}};
  const auto add = [&](std::string label, std::int64_t bytes) {
    figures.lines.push_back({std::move(label), {bytes, ratio(bytes, op.ideal_bytes)}});
  };
  for (const Design design : book_designs) {
    const DesignLedger ledger = design_ledger({}, design, exact);
    const std::int64_t once = 2 * ledger.weight_bytes / ledger.weight_reads;
    const std::string_view name = name_of(design);
    add(fmt::format("{}, weights once a block", name), ledger.total_bytes);
    add(fmt::format("{}, weights once a call", name),
        ledger.total_bytes - ledger.weight_bytes + once);
  }
  // Chapter 13's rms_norm: 4096 rows of 4096 in float16, a row a block.
  const Tensor x{"x", 4096 * 4096, Dtype::float16}, w{"w", 4096, Dtype::float16};
  figures.lines.push_back(
      {"chapter 13's rms_norm, w once a call", {2 * x.bytes() + w.bytes(), std::monostate()}});
  figures.lines.push_back({"chapter 13's rms_norm, w once a block",
                           {2 * x.bytes() + 4096 * w.bytes(), std::monostate()}});
  return {
      22, "Weights once a block here, once a call in chapter 13",
      "Chapter 28 charges weights once a block, chapter 13 once a call.",
      "Both count something: a block asks for its weights, and the L2 answers all but the first "
      "time. By call is what DRAM sees, by block what the L2 does (erratum 16).",
      figures};
}

Erratum best_traffic_is_fixed_text() {
  Figures figures{"rows a block of B",
                  {{"B", Unit::megabytes}, {"C", Unit::megabytes}, {"least traffic", Unit::text}},
                  {}};
  for (const std::int64_t rows : {8, 16, 64}) {
    const Arguments a = with_rows_per_block(rows);
    const std::int64_t b = design_ledger(a, Design::B, book).total_bytes;
    const std::int64_t c = design_ledger(a, Design::C, book).total_bytes;
    figures.lines.push_back({std::to_string(rows), {b, c, std::string(b < c ? "B" : "C")}});
  }
  return {23, "\"Best traffic\" is printed for C even where B moves less",
          "C has the best traffic; for times see the table's last column.",
          "Which design moves least is computed from those that fit. The table's last column is a "
          "ratio; times are in part 3, each beside the ideal's.",
          figures};
}

}  // namespace

std::vector<Erratum> errata() {
  return {
      tables_at_full_width(),        both_weights_a_block(),      blocks_straddle_tokens(),
      on_chip_bytes_left_out(),      resident_blocks_are_fixed(), re_reads_are_charged_to_memory(),
      one_bandwidth_for_any_mix(),   sizes_to_refuse(),           lower_bound_is_none(),
      weights_by_call_or_by_block(), best_traffic_is_fixed_text()};
}

}  // namespace opbook::ch28
