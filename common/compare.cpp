#include "common/compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>

#include "common/error.hpp"

namespace opbook {
namespace {

constexpr double same_within = 0.02;
constexpr double narrow = 0.05;

// Each test is written so that NaN fails it.
bool is_sound(const Bounded& share) {
  return share.low <= share.median && share.median <= share.high;
}

bool is_narrow(const Bounded& share) {
  return share.high - share.low < narrow * share.median;
}

auto key_but_shape(const ResultRow& row) {
  return std::tie(row.op, row.dtype, row.plan, row.device, row.temperature, row.roof);
}

bool same_but_shape(const ResultRow& a, const ResultRow& b) {
  return key_but_shape(a) == key_but_shape(b);
}

bool same_measurement(const ResultRow& a, const ResultRow& b) {
  return same_but_shape(a, b) && a.shape == b.shape;
}

void refuse_repeated(const Results& results, std::string_view side) {
  for (std::size_t i = 0; i < results.rows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const ResultRow& row = results.rows[i];
      if (!same_measurement(results.rows[j], row)) continue;
      throw ArgumentError(fmt::format(
          "{}: rows[{}] repeats rows[{}], {} {} {} {} {} [{}]; allowed: each measurement once",
          side, i, j, row.op, row.dtype, row.plan, row.device, row.temperature,
          fmt::join(row.shape, ", ")));
    }
  }
}

/// The row of `others` that belongs to `row`, which is one of `own`; null where there is none.
const ResultRow* partner(const ResultRow& row, const std::vector<ResultRow>& own,
                         const std::vector<ResultRow>& others) {
  const auto alike = [&](const ResultRow& other) { return same_but_shape(row, other); };
  for (const ResultRow& other : others) {
    if (same_measurement(row, other)) return &other;
  }
  const bool only_one = std::count_if(own.begin(), own.end(), alike) == 1 &&
                        std::count_if(others.begin(), others.end(), alike) == 1;
  return only_one ? &*std::find_if(others.begin(), others.end(), alike) : nullptr;
}

}  // namespace

std::string_view name_of(Change change) {
  switch (change) {
    case Change::same:
      return "SAME";
    case Change::faster:
      return "FASTER";
    case Change::slower:
      return "SLOWER";
    case Change::ambiguous:
      return "AMBIGUOUS";
  }
  return "?";
}

Bounded share_of_roof(const ResultRow& row) {
  return {row.share_of_roof, row.share_lo, row.share_hi};
}

Change judge(const Bounded& mine, const Bounded& recorded) {
  if (!is_sound(mine) || !is_sound(recorded)) return Change::ambiguous;
  const double apart = std::fabs(mine.median - recorded.median);
  const double limit = same_within * recorded.median;
  if (apart > limit && mine.low > recorded.high) return Change::faster;
  if (apart > limit && mine.high < recorded.low) return Change::slower;
  if (apart <= limit && is_narrow(mine) && is_narrow(recorded)) return Change::same;
  return Change::ambiguous;
}

Comparison compare_results(const Results& mine, const Results& recorded) {
  refuse_repeated(mine, "MINE");
  refuse_repeated(recorded, "RECORDED");
  Comparison comparison;
  for (const ResultRow& row : mine.rows) {
    if (const ResultRow* const other = partner(row, mine.rows, recorded.rows)) {
      comparison.rows.push_back({row, *other, judge(share_of_roof(row), share_of_roof(*other))});
    } else {
      comparison.only_mine.push_back(row);
    }
  }
  for (const ResultRow& row : recorded.rows) {
    if (partner(row, recorded.rows, mine.rows) == nullptr) comparison.only_recorded.push_back(row);
  }
  return comparison;
}

std::filesystem::path record_path(const MachineInfo& machine, const std::string& chapter) {
  return std::filesystem::path(OPBOOK_SOURCE_DIR) / "results" / machine_slug(machine.name) /
         (chapter + ".json");
}

}  // namespace opbook
