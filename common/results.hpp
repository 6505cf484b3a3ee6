#pragma once

// Measurements as files: {"schema": 1, "machine": {...}, "rows": [...]}, the fields named as the
// members below. A number that was not measured is NaN here and null there; an optional that is
// empty here is left out there; fields unknown here are tolerated there.

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/machine_info.hpp"

namespace opbook {

inline constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

/// One operator, shape, dtype and plan on one device. Shares are fractions: 0.9 is 90 %.
struct ResultRow {
  std::string op;
  std::vector<std::int64_t> shape;  ///< of x
  std::string dtype;
  std::string plan;         ///< "unfused", "fused", or the name of a step (problem.hpp)
  std::string device;       ///< "cpu" or "cuda"
  std::string temperature;  ///< "cold", or "hot": launched by a graph

  std::int64_t bytes = 0;  ///< the exact ledger's
  std::int64_t flops = 0;
  double median_us = not_measured;
  double p25_us = not_measured;
  double p75_us = not_measured;
  std::int64_t n = 0;  ///< samples
  double gb_per_s = not_measured;

  std::string roof = "copy";            ///< what the share is of: "copy", "converting copy" or,
                                        ///< of a row in a graph, "one read"
  double share_of_roof = not_measured;  ///< median of the paired ratios,
  double share_lo = not_measured;       ///< and the bounds
  double share_hi = not_measured;       ///< of its confidence interval
  std::optional<double> share_of_converting_copy;
  std::optional<double> share_of_converting_copy_lo;
  std::optional<double> share_of_converting_copy_hi;

  double worst_ulp = not_measured;

  /// What replay counted: of `shape`, or, where that is too large to be replayed in reasonable
  /// time, of the fewer rows of `replay_shape`, whose exact ledger is replay_ledger_bytes.
  std::optional<std::vector<std::int64_t>> replay_shape;
  std::optional<std::int64_t> replay_ledger_bytes;
  std::optional<std::int64_t> replay_read_bytes;
  std::optional<std::int64_t> replay_write_bytes;
  std::optional<std::int64_t> replay_flops;
  std::optional<std::int64_t> refetched_bytes;
  std::optional<std::int64_t> on_chip_bytes;
  /// What the cache model says of a cache as large as this machine's last level.
  std::optional<std::int64_t> cache_model_bytes;
  std::optional<std::int64_t> dram_bytes;  ///< what the hardware counted
  std::optional<std::int64_t> dram_read_bytes;
  std::optional<std::int64_t> l2_bytes;      ///< all that passed through the L2, hits and misses
  std::optional<std::string> counters_note;  ///< why dram_bytes is empty
  std::optional<std::string> note;           ///< what to bear in mind about the time
  std::optional<std::string> adds;           ///< of a step: what it adds to the one before
};

struct Results {
  static constexpr std::int64_t schema = 1;
  MachineInfo machine;
  std::vector<ResultRow> rows;
};

/// Writes the file whole or not at all, with the folders it lies in; throws ArgumentError where it
/// cannot be written.
void write_results(const std::filesystem::path& path, const Results& results);

/// Throws ArgumentError, naming the file and the field, where the file is missing or not JSON, its
/// schema is another, or a field is missing, of the wrong type, or negative.
Results read_results(const std::filesystem::path& path);

}  // namespace opbook
