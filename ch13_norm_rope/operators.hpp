#pragma once

// The chapter's table of operators. Programs, JSON, tests, benchmarks and replay are driven by it:
// adding an operator adds an entry here, and nothing elsewhere asks which operators there are.

#include <span>
#include <string_view>
#include <vector>

#include "ch13_norm_rope/fields.hpp"
#include "ch13_norm_rope/ledger.hpp"
#include "common/problem.hpp"

namespace opbook::ch13 {

/// A tensor that the reader may bring as a file, `--<name> FILE.npy`.
struct Input {
  std::string_view name;
  /// The fields of Arguments that are its dimensions, the first of which a file may split over
  /// several; none for RoPE's tables and positions, the same wherever they are taken.
  std::vector<std::string_view> sizes;
};

struct Operator {
  std::string_view name;
  std::vector<std::string_view> aliases;    ///< other names it answers to
  std::vector<std::string_view> arguments;  ///< the fields of Arguments it takes, in printed order
  std::vector<Input> inputs;                ///< all that it may have
  Arguments defaults;                       ///< the book's
  Case (*make_case)(const Arguments&, Convention);
  /// The operator at one size, ready to run on the CPU; nullptr while it exists on paper only.
  /// Throws ArgumentError as make_case does.
  Problem (*make_problem)(const Arguments&);
  /// The fields of Arguments that change its result and that the book does not print.
  std::vector<std::string_view> options = {};
};

std::span<const Operator> operators();

/// The entry with that name or alias, or nullptr.
const Operator* find_operator(std::string_view name);

}  // namespace opbook::ch13
