#pragma once

// The chapter's conclusion, computed: what the book says of its designs and what the exact model
// says, each held against what a machine measured.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ch28_design/time_model.hpp"
#include "common/cli.hpp"

namespace opbook::ch28 {

/// How far a measurement may lie from what is claimed: a count of bytes, a floor that must not be
/// passed below, a time that the model predicts.
inline constexpr double bytes_within = 0.05;
inline constexpr double floor_within = 0.03;
inline constexpr double time_within = 0.15;

enum class Judgement { holds, fails, not_measured };
std::string_view name_of(Judgement verdict);

struct Claim {
  std::string whose;  ///< "book" or "model"
  std::string what;
  std::string predicted;
  std::string measured;  ///< empty where nothing was
  Judgement verdict = Judgement::not_measured;
};

/// One time that the fitted model predicts beside what was measured.
struct Predicted {
  Design design = Design::A;
  std::int64_t tokens = 0;
  double predicted_us = 0;
  double measured_us = 0;
  double error() const { return predicted_us / measured_us - 1; }
};

struct Conclusion {
  std::string machine;
  std::optional<TimeModel> model;  ///< empty where the results do not suffice for a fit
  std::vector<Claim> claims;
  std::vector<Predicted> predictions;
};

/// Results from a file, as read_results() reads them. Rows without counters take those of the same
/// cells in ch28_counters.json, where that lies beside ch28.json and is of the same machine:
/// counting takes long, and not every cell needs it.
Results read_counted(const std::filesystem::path& path);

/// Of results that `bench` wrote on a GPU; of others no claim is measured.
Conclusion conclude(const Results& results);
std::string to_text(const Conclusion& conclusion);

/// `claims [--results FILE] [--json]`.
Subcommand claims_subcommand();

/// `show` with the conclusion behind the results of a GPU that --results names.
Subcommand with_conclusion(Subcommand show);

}  // namespace opbook::ch28
