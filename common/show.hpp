#pragma once

#include <filesystem>
#include <string>

#include "common/chapter.hpp"
#include "common/results.hpp"

namespace opbook {

/// Results as a reader sees them: the four columns side by side, then each operator's ratio of
/// unfused to fused, on paper and by the clock, and where the two part, why.
std::string render_results(const Results& results);

/// A line for both plans of a problem: the fused one's bytes, by ledger and by counters, its time
/// and share of the copy, and what fusion saves on paper and by the clock. What stands without its
/// counterpart is left out.
std::string render_pairs(const Results& results);

/// build/results/<chapter>.json under the repository's root; of a GPU, <chapter>_cuda.json.
std::filesystem::path default_results_path(const std::string& chapter, Device device);
/// Of the two, the one that was written last.
std::filesystem::path latest_results_path(const std::string& chapter);

}  // namespace opbook
