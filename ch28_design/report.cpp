#include "ch28_design/report.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace opbook::ch28 {
namespace {

using nlohmann::ordered_json;

/// 192 as a whole number, 227.5 as what it is.
ordered_json number(double value) {
  if (value == std::floor(value) && value < 0x1p53) return static_cast<std::int64_t>(value);
  return value;
}

ordered_json arguments_json(const Report& report) {
  const Arguments& a = report.arguments;
  ordered_json args = {{"tokens", a.tokens},
                       {"q_heads", a.q_heads},
                       {"kv_heads", a.kv_heads},
                       {"head_dim", a.head_dim}};
  if (report.convention == Convention::book) {
    args["bandwidth_gbs"] = a.bandwidth_gbs;
    args["sm_count"] = a.sm_count;
    args["on_chip_kb"] = number(a.on_chip_kb);
  }
  args["rows_per_block"] = a.rows_per_block;
  if (a.rope_dim) args["rope_dim"] = *a.rope_dim;
  return args;
}

ordered_json ledger_json(const Report& report) {
  const OperatorLedger& op = report.op;
  ordered_json ledger = {{"rows", op.rows},
                         {"elements", op.elements},
                         {"flops", op.flops},
                         {"payload_bytes", op.payload_bytes},
                         {"ideal_lookup_bytes", op.ideal_lookup_bytes},
                         {"ideal_bytes", op.ideal_bytes},
                         {"ai", op.ai()}};
  if (report.convention == Convention::book) ledger["memory_roof_us"] = report.roof_us();
  return ledger;
}

ordered_json book_design_json(const DesignLedger& design, const Budget& budget,
                              const OperatorLedger& op) {
  return {{"design", name_of(design.design)},
          {"rows_per_block", design.rows_per_block},
          {"grid", design.grid},
          {"waves", budget.waves},
          {"on_chip_bytes", design.on_chip_bytes},
          {"payload_bytes", design.payload_bytes},
          {"lookup_bytes", design.lookup_bytes},
          {"total_bytes", design.total_bytes},
          {"vs_ideal", ratio(design.total_bytes, op.ideal_bytes)},
          {"lookup_share", ratio(design.lookup_bytes, design.total_bytes)},
          {"excess_bytes", design.total_bytes - op.ideal_bytes},
          {"floor_us", budget.floor_us},
          {"fits", budget.fits}};
}

ordered_json exact_design_json(const DesignLedger& design, const OperatorLedger& op) {
  return {{"design", name_of(design.design)},
          {"rows_per_block", design.rows_per_block},
          {"grid", design.grid},
          {"weight_reads", design.weight_reads},
          {"table_reads", design.table_reads},
          {"payload_bytes", design.payload_bytes},
          {"lookup_bytes", design.lookup_bytes},
          {"total_bytes", design.total_bytes},
          {"vs_ideal", ratio(design.total_bytes, op.ideal_bytes)},
          {"on_chip_bytes", design.on_chip_bytes}};
}

/// What a machine makes of the designs, by the exact convention.
ordered_json model_json(const Report& report) {
  const Arguments& a = report.arguments;
  ordered_json designs = ordered_json::array();
  for (std::size_t i = 0; i < report.designs.size(); ++i) {
    const DesignLedger& design = report.designs[i];
    const Budget& budget = report.budgets[i];
    const Prediction predicted = report.predictions[i];
    designs.push_back({{"design", name_of(design.design)},
                       {"fits", budget.fits},
                       {"resident_blocks_per_sm", budget.resident_blocks},
                       {"waves", budget.waves},
                       {"lookup_share", ratio(design.lookup_bytes, design.total_bytes)},
                       {"excess_bytes", design.total_bytes - report.op.ideal_bytes},
                       {"dram_bytes", predicted.dram_bytes},
                       {"dram_us", predicted.dram_us},
                       {"waves_us", predicted.waves_us},
                       {"predicted_us", predicted.time_us}});
  }
  return {{"machine", report.judged_on.name},
          {"bandwidth_gbs", a.bandwidth_gbs},
          {"sm_count", a.sm_count},
          {"on_chip_kb", number(a.on_chip_kb)},
          {"l2_bytes", report.judged_on.l2_bytes},
          {"memory_roof_us", report.roof_us()},
          {"designs", std::move(designs)}};
}

}  // namespace

double Report::roof_us() const {
  return time_us(op.ideal_bytes, arguments.bandwidth_gbs);
}

bool Report::all_fit() const {
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    if (all_designs[i] != Design::D && !budgets[i].fits) return false;
  }
  return true;
}

Report make_report(const Arguments& arguments, Convention convention,
                   const std::optional<Machine>& machine) {
  Report report{arguments,
                convention,
                machine,
                machine ? *machine : load_machine("h200"),
                operator_ledger(arguments, convention),
                design_ledgers(arguments, convention),
                {},
                {}};
  for (const DesignLedger& design : report.designs) {
    report.budgets.push_back(budget_of(design, arguments, convention, machine));
    if (convention == Convention::book) continue;
    report.predictions.push_back(
        predict(unfitted_model(arguments), arguments, design.design, report.judged_on));
  }
  return report;
}

nlohmann::ordered_json to_json(const Report& report) {
  const bool book = report.convention == Convention::book;
  ordered_json designs = ordered_json::array();
  for (std::size_t i = 0; i < report.designs.size(); ++i) {
    designs.push_back(book ? book_design_json(report.designs[i], report.budgets[i], report.op)
                           : exact_design_json(report.designs[i], report.op));
  }
  ordered_json ours = designs.back();
  designs.erase(designs.size() - 1);
  ordered_json json = {{"args", arguments_json(report)},
                       {"ledger", ledger_json(report)},
                       {"designs", std::move(designs)},
                       {std::string(name_of(Design::D)), std::move(ours)}};
  if (!book) json["model"] = model_json(report);
  return json;
}

}  // namespace opbook::ch28
