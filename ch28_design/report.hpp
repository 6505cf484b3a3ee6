#pragma once

// The ledger as the program prints it: four parts of text, or JSON.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ch28_design/budget.hpp"
#include "ch28_design/ledger.hpp"
#include "ch28_design/time_model.hpp"
#include "common/machine.hpp"

namespace opbook::ch28 {

struct Report {
  Arguments arguments;
  Convention convention = Convention::book;
  std::optional<Machine> machine;  ///< the one that was asked for
  Machine judged_on;               ///< that one, or the book's: its peak makes the balance point
  OperatorLedger op;
  std::vector<DesignLedger> designs;    ///< A, B, C, D
  std::vector<Budget> budgets;          ///< one for each
  std::vector<Prediction> predictions;  ///< one for each, exact only, by the unfitted model

  double roof_us() const;  ///< the ideal bytes at arguments.bandwidth_gbs
  bool all_fit() const;
};

/// Throws ArgumentError as operator_ledger() does. Sizes, bandwidth and budget are the arguments',
/// also where a machine is given.
Report make_report(const Arguments& arguments, Convention convention,
                   const std::optional<Machine>& machine);

/// 0, the operator; 1, the budget; 2, a diagnosis of each design; 3, what a profiler would show.
std::string to_text(const Report& report);

/// {args, ledger, designs: [A, B, C]} with the fields of the book's table, or under the exact
/// convention those of its corrections; D beside the designs, and with `exact` a machine's view of
/// them, `model`.
nlohmann::ordered_json to_json(const Report& report);

}  // namespace opbook::ch28
