#pragma once

// Results held against results, row by row, on the share of the roof: each machine is measured
// against its own copy, so that different machines can be compared.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/results.hpp"
#include "common/timing.hpp"

namespace opbook {

enum class Change { same, faster, slower, ambiguous };

/// "SAME", "FASTER", "SLOWER", "AMBIGUOUS".
std::string_view name_of(Change change);

/// The median share and the bounds that a row gives for it.
Bounded share_of_roof(const ResultRow& row);

/// From `recorded` to `mine`:
/// - FASTER, SLOWER: the intervals are disjoint and the medians differ by over 2 % of the recorded
///   one;
/// - SAME: the medians differ by at most 2 % and each interval is narrower than 5 % of its median;
/// - AMBIGUOUS: all else: too noisy to tell. So is a share that was not measured (NaN) or that lies
///   outside its own bounds.
Change judge(const Bounded& mine, const Bounded& recorded);

struct ComparedRow {
  ResultRow mine;
  ResultRow recorded;
  Change change = Change::ambiguous;
};

struct Comparison {
  std::vector<ComparedRow> rows;         ///< in the order of mine
  std::vector<ResultRow> only_mine;      ///< rows that the other side lacks
  std::vector<ResultRow> only_recorded;  ///< likewise
};

/// Pairs the rows and judges each pair. Rows belong together where op, dtype, plan, device,
/// temperature, roof and shape agree; or all but the shape, where neither side has that operator at
/// a second shape: `bench` sizes a problem by the machine's caches, so each machine has its own
/// shapes, and the share of the roof is what compares across them. Throws ArgumentError where one
/// side holds the same measurement twice.
Comparison compare_results(const Results& mine, const Results& recorded);

/// results/<machine>/<chapter>.json under this repository's root: where `bench --record` writes,
/// and what `compare` takes by default.
std::filesystem::path record_path(const MachineInfo& machine, const std::string& chapter);

}  // namespace opbook
