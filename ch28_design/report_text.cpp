#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ch28_design/report.hpp"
#include "common/table.hpp"

namespace opbook::ch28 {
namespace {

/// Bytes over the ideal that are not worth a change of design: a twentieth.
constexpr double small_excess = 0.05;

bool by_the_book(const Report& report) {
  return report.convention == Convention::book;
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", thousands(count), noun, count == 1 ? "" : "s");
}

std::string title_of(const DesignLedger& design) {
  const std::string rows = counted(design.rows_per_block, "row");
  switch (design.design) {
    case Design::A:
      return "A: one row per block";
    case Design::B:
      return fmt::format("B: {} per block", rows);
    case Design::C:
      return "C: one token per block";
    case Design::D:
      break;
  }
  return fmt::format("D: ours, {} per block", rows);
}

/// 37024 is "36.2": in KiB, as budgets are given.
std::string kib(double bytes) {
  return fixed(bytes / 1024, 1);
}

/// 192, or 227.5.
std::string short_number(double value) {
  return fmt::format("{}", value);
}

// Part 0.

std::string judgement(const Report& report) {
  const double balance =
      report.judged_on.peak_for("fp32") * 1e12 / (report.arguments.bandwidth_gbs * 1e9);
  const bool memory = report.op.ai() < balance;
  return fmt::format(
      "{}-bound: AI {:.3f} lies {} of the balance point, {:.3f} FLOP/byte\n(fp32 of one {} over {} "
      "GB/s).\n",
      memory ? "Memory" : "Compute", report.op.ai(), memory ? "left" : "right", balance,
      report.judged_on.name, short_number(report.arguments.bandwidth_gbs));
}

std::string operator_text(const Report& report) {
  const Arguments& a = report.arguments;
  const OperatorLedger& op = report.op;
  std::string text =
      fmt::format("0. The operator: {}, {} + {}, head_dim {}", counted(a.tokens, "token"),
                  counted(a.q_heads, "q head"), counted(a.kv_heads, "kv head"), a.head_dim);
  if (a.rope_dim) text += fmt::format(", the last {} turn", *a.rope_dim);
  text += "\n\n";
  Table table({{"rows"},
               {"elements"},
               {"MFLOP"},
               {"ideal MB"},
               {"payload MB"},
               {"lookup MB"},
               {"AI"},
               {"memory roof us"}});
  table.add_row({thousands(op.rows), thousands(op.elements),
                 fixed(static_cast<double>(op.flops) / 1e6, 2), megabytes(op.ideal_bytes),
                 megabytes(op.payload_bytes), megabytes(op.ideal_lookup_bytes), fixed(op.ai(), 3),
                 fixed(report.roof_us(), 3)});
  return text + table.render() + "\n" + judgement(report);
}

// Part 1.

std::string resident_text(const Report& report) {
  if (by_the_book(report)) {
    return fmt::format("{} resident blocks an SM, whatever they hold", book_resident_blocks);
  }
  return "resident blocks as on-chip use lets an SM hold them";
}

std::string budget_text(const Report& report) {
  std::vector<Column> columns = {{"design", Align::left}, {"rows a block"}, {"grid"}};
  if (!by_the_book(report)) columns.push_back({"resident"});
  columns.insert(
      columns.end(),
      {{"waves"}, {"on-chip KB"}, {"payload MB"}, {"lookup MB"}, {"total MB"}, {"vs ideal"}});
  Table table(columns);
  std::string failures;
  for (std::size_t i = 0; i < report.designs.size(); ++i) {
    const DesignLedger& design = report.designs[i];
    const Budget& budget = report.budgets[i];
    std::vector<std::string> cells = {title_of(design), thousands(design.rows_per_block),
                                      thousands(design.grid)};
    if (!by_the_book(report)) cells.push_back(std::to_string(budget.resident_blocks));
    for (std::string& cell : std::vector<std::string>{
             budget.waves > 0 ? thousands(budget.waves) : "-",
             kib(static_cast<double>(design.on_chip_bytes)), megabytes(design.payload_bytes),
             megabytes(design.lookup_bytes), megabytes(design.total_bytes),
             fixed(ratio(design.total_bytes, report.op.ideal_bytes), 2) + "x"}) {
      cells.push_back(std::move(cell));
    }
    table.add_row(std::move(cells));
    if (budget.fits) continue;
    failures += fmt::format("FAIL {}: {} KB on chip, over the budget of {} KB.\n",
                            name_of(design.design), kib(static_cast<double>(design.on_chip_bytes)),
                            short_number(report.arguments.on_chip_kb));
  }
  return "1. The budget\n\n" + table.render() +
         fmt::format("\nBudget {} KB on chip a block; {}; {}.\n",
                     short_number(report.arguments.on_chip_kb),
                     counted(report.arguments.sm_count, "SM"), resident_text(report)) +
         failures;
}

// Part 2.

/// What costs a design its bytes, by its figures.
std::string cure(const Report& report, const DesignLedger& design, const Budget& budget) {
  const Arguments& a = report.arguments;
  const OperatorLedger& op = report.op;
  if (!budget.fits) return "A block does not fit: fewer rows a block.";
  const std::int64_t table_row = design.table_bytes / design.table_reads;
  const std::int64_t tables_again = design.table_bytes - table_row * a.tokens;
  const std::int64_t excess = design.total_bytes - op.ideal_bytes;
  if (ratio(excess, op.ideal_bytes) < small_excess) {
    return fmt::format(
        "Nothing to fix in traffic: look at on-chip use ({} KB a block) and "
        "occupancy ({} blocks an SM).",
        kib(static_cast<double>(design.on_chip_bytes)), budget.resident_blocks);
  }
  const std::string weights =
      fmt::format("the weights are read in every one of {}", counted(design.grid, "block"));
  if (tables_again == 0) return "To fix: " + weights + ".";
  const double reads_a_token = ratio(design.table_reads, a.tokens);
  if (design.table_reads == op.rows) {
    return fmt::format("To fix: the table is re-read for every head, {} times a token;\n  {}.",
                       a.heads(), weights);
  }
  return fmt::format(
      "To fix: what remains is the re-read at each block of a token, {} table reads a token;\n"
      "  {}.",
      fixed(reads_a_token, 3), weights);
}

/// The design that fits and moves least; of equals the first.
const DesignLedger* least_traffic(const Report& report) {
  const DesignLedger* least = nullptr;
  for (std::size_t i = 0; i < report.designs.size(); ++i) {
    if (!report.budgets[i].fits) continue;
    if (least == nullptr || report.designs[i].total_bytes < least->total_bytes) {
      least = &report.designs[i];
    }
  }
  return least;
}

std::string diagnosis_text(const Report& report) {
  std::string text = "2. Diagnosis\n";
  for (std::size_t i = 0; i < report.designs.size(); ++i) {
    const DesignLedger& design = report.designs[i];
    const Budget& budget = report.budgets[i];
    text += fmt::format(
        "\n{}\n  {} MB = payload {} + lookup {}; lookup is {} of it. {} MB over the ideal: the "
        "floor\n  rises from {} us to {} us.\n  {}\n",
        title_of(design), megabytes(design.total_bytes), megabytes(design.payload_bytes),
        megabytes(design.lookup_bytes), percent(ratio(design.lookup_bytes, design.total_bytes)),
        megabytes(design.total_bytes - report.op.ideal_bytes), fixed(report.roof_us(), 3),
        fixed(budget.floor_us, 3), cure(report, design, budget));
  }
  const DesignLedger* least = least_traffic(report);
  text += least == nullptr ? "\nNo design fits.\n"
                           : fmt::format("\nLeast traffic among those that fit: {}, {} MB.\n",
                                         name_of(least->design), megabytes(least->total_bytes));
  return text;
}

// Part 3.

std::string profiler_text(const Report& report) {
  Table table({{"design", Align::left}, {"SOL us"}, {"floor us"}, {"floor / SOL"}, {"SOL share"}});
  for (std::size_t i = 0; i < report.designs.size(); ++i) {
    const double floor = report.budgets[i].floor_us;
    table.add_row({std::string(name_of(report.designs[i].design)), fixed(report.roof_us(), 3),
                   fixed(floor, 3), fixed(floor / report.roof_us(), 2) + "x",
                   percent(report.roof_us() / floor)});
  }
  return fmt::format(
      "3. What a profiler would show\n\n{}\nSOL: the ideal bytes at {} GB/s. Floor: the design's "
      "own bytes at that rate. Hold a measured\ntime against both. Near the floor: the kernel does "
      "what the design asks for, so change the\ndesign. Far above it: latency, occupancy or a "
      "partial last wave, so change the kernel. Below it:\na cache kept what the design reads "
      "again, and the floor is none; count the DRAM bytes.\n",
      table.render(), short_number(report.arguments.bandwidth_gbs));
}

/// The exact convention's last part: what a cache leaves to DRAM, and the time that makes.
std::string prediction_text(const Report& report) {
  Table table({{"design", Align::left},
               {"by block MB"},
               {"DRAM MB"},
               {"DRAM us"},
               {"waves us"},
               {"predicted us"},
               {"limit", Align::left}});
  for (std::size_t i = 0; i < report.designs.size(); ++i) {
    const Prediction& predicted = report.predictions[i];
    const bool resident = report.budgets[i].waves > 0;
    table.add_row({std::string(name_of(report.designs[i].design)),
                   megabytes(report.designs[i].total_bytes), megabytes(predicted.dram_bytes),
                   fixed(predicted.dram_us, 2), resident ? fixed(predicted.waves_us, 2) : "-",
                   resident ? fixed(predicted.time_us, 2) : "-",
                   !resident                                ? "does not run"
                   : predicted.waves_us > predicted.dram_us ? "waves"
                                                            : "DRAM"});
  }
  return fmt::format(
      "\n{}\nBehind an L2 of {} MB. Time = {} us overhead + the longer of the two: the DRAM bytes "
      "at "
      "{}\nGB/s, or the waves at {} us each, in which a block lives. Overhead and life are those "
      "of "
      "any such\nmachine; `claims` fits them to measurements.\n",
      table.render(), megabytes(report.judged_on.l2_bytes), fixed(TimeModel().overhead_us, 1),
      short_number(report.arguments.bandwidth_gbs), fixed(TimeModel().wave_us[0], 1));
}

}  // namespace

std::string to_text(const Report& report) {
  return fmt::format("Chapter 28, QK-Norm + RoPE + FP8, {} convention{}\n\n{}\n{}\n{}\n{}{}",
                     by_the_book(report) ? "book" : "exact",
                     report.machine ? ", on one " + report.machine->name : "",
                     operator_text(report), budget_text(report), diagnosis_text(report),
                     profiler_text(report), by_the_book(report) ? "" : prediction_text(report));
}

}  // namespace opbook::ch28
