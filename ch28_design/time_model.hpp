#pragma once

// How long a design takes, from its ledger and a few figures of the machine:
//
//   time = overhead + max(DRAM bytes / rate, waves * wave time)
//
// DRAM bytes are what the cache level leaves of the bytes by block; waves are how often the machine
// fills with blocks, as many at once as on-chip use allows. A wave takes as long as a block lives:
// its reads, two reductions, its writes, whatever the bandwidth. Overhead, rate and wave times are
// fitted, or stand at what any such machine has.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ch28_design/budget.hpp"
#include "common/results.hpp"

namespace opbook::ch28 {

struct TimeModel {
  /// Microseconds from an idle machine to the first byte and from the last one to the end: of a
  /// tiny kernel, timed alone, on an H200.
  double overhead_us = 3.8;
  double rate_gbs = 0;  ///< of DRAM, for two bytes read and one written
  /// By design. Where nothing was measured: a launch, a read of DRAM, some arithmetic.
  std::array<double, 4> wave_us = {1, 1, 1, 1};
  std::vector<std::int64_t> fitted_tokens;  ///< the sizes it was fitted to; none: not fitted
};

/// Sizes that are predicted, and that nothing is ever fitted to: the book's, and one far beyond an
/// L2.
inline constexpr std::int64_t predicted_tokens[] = {4096, 32768};

struct Prediction {
  std::int64_t dram_bytes = 0;
  double dram_us = 0;
  double waves_us = 0;  ///< 0 where an SM holds no block
  double time_us = 0;
};

/// With the rate of arguments.bandwidth_gbs and otherwise what any machine has.
TimeModel unfitted_model(const Arguments& arguments);

/// The exact convention's ledger through the model. `machine` gives L2 and on-chip memory, the
/// arguments SMs and budget.
Prediction predict(const TimeModel& model, const Arguments& arguments, Design design,
                   const Machine& machine);

/// A row of results that times a design at the book's heads and width, cold, in bfloat16.
struct DesignRow {
  Design design = Design::A;
  std::int64_t tokens = 0;
  const ResultRow* row = nullptr;
};
std::vector<DesignRow> design_rows(const Results& results);

/// Fitted to rows of 1024 tokens and more, predicted_tokens left out: overhead and rate to the
/// device copies that took turns with the designs, each design's wave time to its own times, by
/// least squares of relative errors. Empty where there are no two such sizes.
std::optional<TimeModel> fitted_model(std::span<const DesignRow> rows, const Machine& machine);

/// The defaults, on a machine.
Arguments arguments_on(const Machine& machine, std::int64_t tokens);

}  // namespace opbook::ch28
