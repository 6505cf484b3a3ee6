#pragma once

#include <vector>

#include "common/problem.hpp"
#include "common/results.hpp"
#include "common/timing.hpp"

namespace opbook {

/// Times both plans of a problem in turn with the roofs, on cold caches, and replays them: one row
/// a plan. The caller has verified the operator; `tensors` holds its inputs.
std::vector<ResultRow> bench_problem(const Problem& problem, Tensors& tensors,
                                     std::int64_t llc_bytes, const TimingOptions& options);

}  // namespace opbook
