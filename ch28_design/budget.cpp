#include "ch28_design/budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/checked.hpp"
#include "common/error.hpp"

namespace opbook::ch28 {
namespace {

std::int64_t sm_bytes_of(const Arguments& a, const std::optional<Machine>& machine) {
  if (machine) return machine->on_chip_bytes_per_sm;
  return static_cast<std::int64_t>(std::min(a.on_chip_kb * 1024, 0x1p62)) +
         reserved_bytes_per_block;
}

}  // namespace

double time_us(std::int64_t bytes, double bandwidth_gbs) {
  const double time = static_cast<double>(bytes) / (bandwidth_gbs * 1e9) * 1e6;
  if (!std::isfinite(time) || time <= 0) {
    throw ArgumentError(fmt::format(
        "bandwidth_gbs: got {}; allowed: one that makes a finite time above zero", bandwidth_gbs));
  }
  return time;
}

std::int64_t resident_blocks(std::int64_t on_chip_bytes, std::int64_t sm_bytes) {
  const std::int64_t of_block = checked_add({on_chip_bytes, reserved_bytes_per_block});
  return std::min(sm_bytes / of_block, most_resident_blocks);
}

Budget budget_of(const DesignLedger& design, const Arguments& a, Convention convention,
                 const std::optional<Machine>& machine) {
  Budget budget;
  budget.fits = static_cast<double>(design.on_chip_bytes) <= a.on_chip_kb * 1024;
  budget.resident_blocks = convention == Convention::book
                               ? book_resident_blocks
                               : resident_blocks(design.on_chip_bytes, sm_bytes_of(a, machine));
  if (budget.resident_blocks > 0) {
    const std::int64_t at_once = checked_mul({a.sm_count, budget.resident_blocks});
    budget.waves = design.grid / at_once + (design.grid % at_once != 0);
  }
  budget.floor_us = time_us(design.total_bytes, a.bandwidth_gbs);
  return budget;
}

CacheLevel cache_level(const DesignLedger& design, const Budget& budget, const Arguments& a,
                       std::int64_t l2_bytes) {
  const OperatorLedger op = operator_ledger(a, Convention::exact);
  // In double: a window is only compared with a cache, and beyond 2^53 bytes it fits none.
  const double at_once = static_cast<double>(a.sm_count) *
                         static_cast<double>(design.rows_per_block) *
                         static_cast<double>(std::max<std::int64_t>(1, budget.resident_blocks));
  const double rows =
      std::min(static_cast<double>(op.rows), at_once + static_cast<double>(a.heads()));
  CacheLevel level;
  level.window_bytes = rows * static_cast<double>(op.ideal_bytes) / static_cast<double>(op.rows);
  level.holds = level.window_bytes <= static_cast<double>(l2_bytes);
  level.dram_bytes = level.holds ? op.ideal_bytes : design.total_bytes;
  return level;
}

std::string_view mix_name(const Machine& machine) {
  for (const std::string_view mix : {"mix_2_1", "triad", "copy"}) {
    if (machine.bandwidth_gbs.contains(mix)) return mix;
  }
  return "peak";
}

double mix_bandwidth_gbs(const Machine& machine) {
  return machine.bandwidth_for(mix_name(machine));
}

}  // namespace opbook::ch28
