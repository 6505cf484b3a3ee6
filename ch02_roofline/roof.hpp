#pragma once

// One roof as it was measured, and the machine file that a chapter's worth of them makes.

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/machine_info.hpp"
#include "common/timing.hpp"

namespace opbook::ch02 {

/// A rate or a time with the quartiles of its samples. NaN where it was not measured: `note` then
/// says why.
struct Roof {
  std::string name;   ///< one of bandwidth_mixes or compute_units, or "launch"
  std::string unit;   ///< "GB/s", "TFLOP/s" or "us"
  std::string where;  ///< "one core", "all cores", "one SM", "all SMs", "stream", "graph"
  std::string how;    ///< the instructions, or the library's call
  std::int64_t working_set_bytes = 0;  ///< of a bandwidth: all that is read and written
  double median = std::numeric_limits<double>::quiet_NaN();
  double p25 = std::numeric_limits<double>::quiet_NaN();
  double p75 = std::numeric_limits<double>::quiet_NaN();
  int n = 0;                                       ///< samples
  std::optional<double> of_theory = std::nullopt;  ///< share of the theoretical peak, where known
  std::optional<std::string> note = std::nullopt;
};

/// Fills median, quartiles and n from times: `amount` / us / 1e3 for GB/s of bytes, / 1e6 for
/// TFLOP/s of FLOPs, the times themselves for us.
void fill_rate(Roof& roof, double amount, std::span<const double> samples_us);

/// The fastest of the roofs of that name over all cores or SMs, at the largest working set that
/// there is of it; nullptr where none was measured.
const Roof* best_roof(std::span<const Roof> roofs, std::string_view name);

/// Roofs that no machine can have, a line each: above the theoretical peak, or, where a data sheet
/// of the machine ships, above that.
std::vector<std::string> impossible_roofs(std::span<const Roof> roofs, const MachineInfo& machine);

/// Roofs that are hardly the machine's, a line each: the best of fp32 below half of the theoretical
/// peak, as where somebody else had the cores meanwhile.
std::vector<std::string> doubtful_roofs(std::span<const Roof> roofs);

/// Sizes that a machine file has beside its rates.
struct OnChip {
  std::int64_t bytes_per_block = 0;
  std::int64_t bytes_per_sm = 0;
  std::string how;  ///< what a block and an sm stand for
};

/// Writes a measured machine file as common/machine.hpp reads it, with the roofs themselves and how
/// each was measured beside the rates. Throws ArgumentError where copy or fp32 were not measured,
/// or the file cannot be written.
void write_machine(const std::filesystem::path& path, const MachineInfo& machine,
                   const OnChip& on_chip, std::span<const Roof> roofs);

/// The roofs of such a file; throws ArgumentError, naming file and field, where there are none or
/// they are not as they were written.
std::vector<Roof> read_roofs(const std::filesystem::path& path);

/// As tables: bandwidth by working set, by mix in memory, arithmetic, launches.
std::string render_roofs(std::span<const Roof> roofs);

}  // namespace opbook::ch02
