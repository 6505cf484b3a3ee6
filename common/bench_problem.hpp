#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/problem.hpp"
#include "common/results.hpp"
#include "common/timing.hpp"

namespace opbook {

/// Times both plans of a problem, or `plans` alone, in turn with the roofs, on cold caches, and
/// replays them, `replayed_bytes` of them at most: one row a plan. The caller has verified the
/// operator; `tensors` holds its inputs.
std::vector<ResultRow> bench_problem(const Problem& problem, Tensors& tensors,
                                     std::int64_t llc_bytes, const TimingOptions& options,
                                     std::span<const PlanKind> plans = both_plans,
                                     std::int64_t replayed_bytes = 160'000'000);

/// What both devices' benchmarks make rows of: cold samples of one plan, and of the copy that took
/// turns with it, as if it had moved the plan's bytes.
ResultRow timed_row(const Problem& problem, PlanKind plan, std::string device,
                    std::span<const double> plan_us, std::span<const double> copy_us);

/// Fills the replay columns of a problem's rows, one a plan. Replay is serial and takes about a
/// second for each 100 MB, or GFLOP: where the fused plan moves more than `most_bytes`, or does
/// more than 8 FLOPs for each of them, or the unfused one moves more than 8 times that, it is
/// replayed on as many of its rows as stay below, with the modelled cache smaller in the same
/// measure.
void add_replays(const Problem& problem, std::int64_t llc_bytes, std::int64_t most_bytes,
                 std::vector<ResultRow>& rows);

}  // namespace opbook
