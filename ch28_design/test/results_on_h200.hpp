#pragma once

// Made-up results of an H200 that behaves exactly as the model says, for tests of the fit.

#include <string>

#include "ch28_design/time_model.hpp"

namespace opbook::ch28 {

inline TimeModel made_up_model() {
  return {4.5, 4200, {1.3, 0.9, 2.5, 1.1}, {}};
}

inline Results results_of(const TimeModel& model, const std::vector<std::int64_t>& all_tokens) {
  const Machine machine = load_machine("h200");
  Results results;
  results.machine.name = "NVIDIA H200";
  results.machine.device = "cuda";
  for (const std::int64_t tokens : all_tokens) {
    for (const Design design : all_designs) {
      const Arguments a = arguments_on(machine, tokens);
      ResultRow& row = results.rows.emplace_back();
      row.op = "qk_norm_rope_quant";
      if (design != Design::D) row.op += " (design " + std::string(name_of(design)) + ")";
      row.shape = {tokens, 40, 128};
      row.dtype = "bfloat16";
      row.plan = "fused";
      row.device = "cuda";
      row.temperature = "cold";
      row.bytes = operator_ledger(a, Convention::exact).ideal_bytes;
      row.median_us = predict(model, a, design, machine).time_us;
      const double copy_us = model.overhead_us + time_us(row.bytes, model.rate_gbs);
      row.share_of_roof = copy_us / row.median_us;
    }
  }
  return results;
}

}  // namespace opbook::ch28
