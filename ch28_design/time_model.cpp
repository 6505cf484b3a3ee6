#include "ch28_design/time_model.hpp"

#include <algorithm>

namespace opbook::ch28 {
namespace {

constexpr std::int64_t fewest_fitted_tokens = 1024;

bool is_fitted_to(const DesignRow& row) {
  return row.tokens >= fewest_fitted_tokens &&
         std::find(std::begin(predicted_tokens), std::end(predicted_tokens), row.tokens) ==
             std::end(predicted_tokens);
}

/// y = a + b x through points of relative weight: the least sum of ((a + b x - y) / y)^2.
struct Line {
  double a = 0, b = 0;
};
struct Point {
  double x, y;
};
Line fitted_line(const std::vector<Point>& points) {
  double n = 0, sx = 0, sxx = 0, sy = 0, sxy = 0;
  for (const auto& [x, y] : points) {
    const double weight = 1 / (y * y);
    n += weight;
    sx += weight * x;
    sxx += weight * x * x;
    sy += weight * y;
    sxy += weight * x * y;
  }
  const double slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
  return {(sy - slope * sx) / n, slope};
}

/// The factor f for which a + f x comes nearest to y, in the same sense.
double fitted_factor(const std::vector<Point>& points, double a) {
  double sxx = 0, sxy = 0;
  for (const auto& [x, y] : points) {
    sxx += x * x / (y * y);
    sxy += x * (y - a) / (y * y);
  }
  return std::max(0.0, sxy / sxx);
}

/// How often the machine fills, in parts: a block begins where another ends, not all at once. 0
/// where an SM holds none.
double waves_of(const DesignLedger& ledger, const Budget& budget, const Arguments& a) {
  if (budget.resident_blocks == 0) return 0;
  const double at_once =
      static_cast<double>(a.sm_count) * static_cast<double>(budget.resident_blocks);
  return std::max(1.0, static_cast<double>(ledger.grid) / at_once);
}

std::optional<Design> design_of(const ResultRow& row) {
  if (row.plan != "fused" || row.dtype != "bfloat16" || row.temperature != "cold") return {};
  if (!(row.median_us > 0 && row.share_of_roof > 0 && row.bytes > 0)) return {};  // not measured
  const Arguments defaults;
  if (row.shape.size() != 3 || row.shape[1] != defaults.heads() ||
      row.shape[2] != defaults.head_dim) {
    return {};
  }
  if (row.op == "qk_norm_rope_quant") return Design::D;
  for (const Design design : {Design::A, Design::B, Design::C}) {
    if (row.op == "qk_norm_rope_quant (design " + std::string(name_of(design)) + ")") return design;
  }
  return {};
}

}  // namespace

TimeModel unfitted_model(const Arguments& arguments) {
  TimeModel model;
  model.rate_gbs = arguments.bandwidth_gbs;
  return model;
}

Prediction predict(const TimeModel& model, const Arguments& a, Design design,
                   const Machine& machine) {
  const DesignLedger ledger = design_ledger(a, design, Convention::exact);
  const Budget budget = budget_of(ledger, a, Convention::exact, machine);
  Prediction prediction;
  prediction.dram_bytes = cache_level(ledger, budget, a, machine.l2_bytes).dram_bytes;
  prediction.dram_us = time_us(prediction.dram_bytes, model.rate_gbs);
  prediction.waves_us =
      waves_of(ledger, budget, a) * model.wave_us[static_cast<std::size_t>(design)];
  prediction.time_us = model.overhead_us + std::max(prediction.dram_us, prediction.waves_us);
  return prediction;
}

std::vector<DesignRow> design_rows(const Results& results) {
  std::vector<DesignRow> rows;
  for (const ResultRow& row : results.rows) {
    if (const auto design = design_of(row)) rows.push_back({*design, row.shape.front(), &row});
  }
  return rows;
}

std::optional<TimeModel> fitted_model(std::span<const DesignRow> rows, const Machine& machine) {
  TimeModel model;
  std::vector<Point> copies;
  std::array<std::vector<Point>, 4> by_design;
  for (const DesignRow& row : rows) {
    if (!is_fitted_to(row)) continue;
    const double us = row.row->median_us, copy_us = us * row.row->share_of_roof;
    copies.push_back({static_cast<double>(row.row->bytes), copy_us});
    const Arguments a = arguments_on(machine, row.tokens);
    const DesignLedger ledger = design_ledger(a, row.design, Convention::exact);
    const double waves = waves_of(ledger, budget_of(ledger, a, Convention::exact, machine), a);
    by_design[static_cast<std::size_t>(row.design)].push_back({waves, us});
    if (std::find(model.fitted_tokens.begin(), model.fitted_tokens.end(), row.tokens) ==
        model.fitted_tokens.end()) {
      model.fitted_tokens.push_back(row.tokens);
    }
  }
  if (model.fitted_tokens.size() < 2) return std::nullopt;
  const Line copy = fitted_line(copies);
  model.overhead_us = std::max(0.0, copy.a);
  model.rate_gbs = 1e-3 / copy.b;  // 1 GB/s is 10^3 bytes a microsecond
  for (std::size_t design = 0; design < by_design.size(); ++design) {
    if (by_design[design].empty()) continue;
    model.wave_us[design] = fitted_factor(by_design[design], model.overhead_us);
  }
  return model;
}

Arguments arguments_on(const Machine& machine, std::int64_t tokens) {
  Arguments a;
  a.tokens = tokens;
  a.bandwidth_gbs = mix_bandwidth_gbs(machine);
  a.sm_count = machine.sms;
  a.on_chip_kb = static_cast<double>(machine.on_chip_bytes_per_block) / 1024;
  return a;
}

}  // namespace opbook::ch28
