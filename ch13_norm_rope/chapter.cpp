#include "ch13_norm_rope/chapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ch13_norm_rope/ledger_command.hpp"
#include "ch13_norm_rope/operators.hpp"
#include "common/error.hpp"

namespace opbook::ch13 {
namespace {

bool takes(const Operator& entry, std::string_view argument) {
  return std::find(entry.arguments.begin(), entry.arguments.end(), argument) !=
         entry.arguments.end();
}

/// `rows` rows: tokens where the operator has tokens, rows of 4096 where it has only a length.
Arguments with_rows(const Operator& entry, Arguments arguments, std::int64_t rows) {
  if (takes(entry, "m")) {
    arguments.m = rows;
  } else if (takes(entry, "tokens")) {
    arguments.tokens = rows;
  } else {
    arguments.n = rows * 4096;
  }
  return arguments;
}

Problem make(const Operator& entry, const Arguments& arguments) {
  Problem problem = entry.make_problem(arguments);
  problem.with_rows = [&entry, arguments](std::int64_t rows) {
    return make(entry, with_rows(entry, arguments, rows));
  };
  return problem;
}

float parse_eps(const std::string& text) {
  float eps = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, eps);
  if (error != std::errc() || rest != end || !(eps >= 0) || !std::isfinite(eps)) {
    throw ArgumentError(
        fmt::format("--eps: got \"{}\"; allowed: a finite number, 0 or above", text));
  }
  return eps;
}

/// What a run may vary and the ledger does not know of.
std::vector<Flag> run_flags() {
  return {{"--eps", "X", "added to the mean square, default 1e-6"},
          {"--rounding", "MODE", "once (default), or before_weight as Hugging Face rounds"},
          {"--weight-offset", "0|1", "1: multiply by 1 + w (Gemma); default 0"}};
}

void parse_run_flags(const Operator& entry, const GivenFlags& given, Arguments& arguments) {
  const bool normalises = entry.name.find("norm") != std::string_view::npos;
  for (const Flag& flag : run_flags()) {
    if (given.contains(flag.name) && !normalises) {
      throw ArgumentError(
          fmt::format("{}: given, but {} does not take it; allowed: an operator "
                      "that normalises",
                      flag.name, entry.name));
    }
  }
  if (given.contains("--eps")) arguments.eps = parse_eps(given.at("--eps"));
  constexpr std::string_view roundings[] = {"once", "before_weight"};
  const std::string rounding = value_or(given, "--rounding", "once");
  arguments.rounding = static_cast<Rounding>(parse_choice("--rounding", rounding, roundings));
  constexpr std::string_view offsets[] = {"0", "1"};
  const std::string offset = value_or(given, "--weight-offset", "0");
  arguments.weight_offset = static_cast<int>(parse_choice("--weight-offset", offset, offsets));
}

/// Sizes and dtype that a reader's files bring along; a flag that says otherwise is refused.
void take_sizes(const Files& files, const GivenFlags& given, Arguments& arguments) {
  const auto size = [&](const char* flag, std::int64_t from_file, std::int64_t& argument) {
    if (given.contains(flag) && argument != from_file) {
      throw ArgumentError(
          fmt::format("{}: got {}; allowed: {}, as the files have it", flag, argument, from_file));
    }
    if (from_file < 1) {
      throw ArgumentError(fmt::format(
          "{}: got {} from the files; allowed: a whole number above zero", flag, from_file));
    }
    argument = from_file;
  };
  if (const auto x = files.find("x"); x != files.end()) {
    if (x->second.shape().empty()) {
      throw ArgumentError("--x: got rank 0; allowed: rank 1 or more");
    }
    size("--m", x->second.row_count(), arguments.m);
    size("--n", x->second.cols(), arguments.n);
    arguments.dtype = x->second.dtype();
  } else if (const auto w = files.find("w"); w != files.end()) {
    if (w->second.shape().size() != 1) {
      throw ArgumentError(
          fmt::format("--w: got rank {}; allowed: rank 1", w->second.shape().size()));
    }
    size("--n", w->second.cols(), arguments.n);
    arguments.dtype = w->second.dtype();
  }
}

std::vector<std::string_view> runnable_names() {
  std::vector<std::string_view> names;
  for (const Operator& entry : operators()) {
    if (entry.make_problem == nullptr) continue;
    names.push_back(entry.name);
    names.insert(names.end(), entry.aliases.begin(), entry.aliases.end());
  }
  return names;
}

Problem make_problem(const std::string& op, const GivenFlags& given, const Files& files) {
  const std::vector<std::string_view> names = runnable_names();
  const Operator& entry = *find_operator(names[parse_choice("--op", op, names)]);
  Arguments arguments = parse_arguments(entry, given);
  parse_run_flags(entry, given, arguments);
  take_sizes(files, given, arguments);
  return make(entry, arguments);
}

/// Widths that break vector loops: below, at and beyond the lanes of a register, odd, and no
/// multiple of anything; then those of real models.
constexpr std::int64_t verified_columns[] = {1, 2, 3, 7, 64, 513, 769, 1368, 3584, 4096, 5120};

std::vector<Problem> verification_problems() {
  std::vector<Problem> problems;
  for (const Operator& entry : operators()) {
    if (entry.make_problem == nullptr) continue;
    for (const Dtype dtype : input_dtypes) {
      Arguments arguments = entry.defaults;
      arguments.dtype = dtype;
      std::int64_t rows = 1;
      for (const std::int64_t n : verified_columns) {
        arguments.n = n;
        arguments.m = rows = rows % 23 + 6;
        arguments.weight_offset = rows % 2;
        arguments.rounding = rows % 3 == 0 ? Rounding::before_weight : Rounding::once;
        problems.push_back(make(entry, arguments));
      }
    }
  }
  return problems;
}

std::vector<Problem> benchmark_problems(std::int64_t bytes) {
  std::vector<Problem> problems;
  for (const Operator& entry : operators()) {
    if (entry.make_problem == nullptr) continue;
    for (const Dtype dtype : input_dtypes) {
      Arguments arguments = entry.defaults;
      arguments.dtype = dtype;
      constexpr std::int64_t some_rows = 1024;
      const Case some = entry.make_case(with_rows(entry, arguments, some_rows), Convention::exact);
      const std::int64_t rows = bytes / (some.fused.moved_bytes() / some_rows);
      problems.push_back(make(entry, with_rows(entry, arguments, std::max<std::int64_t>(1, rows))));
    }
  }
  return problems;
}

}  // namespace

Chapter chapter() {
  Chapter chapter;
  chapter.name = "ch13";
  chapter.argument_flags = argument_flags();
  for (const Flag& flag : run_flags()) chapter.argument_flags.push_back(flag);
  chapter.input_names = {"x", "w"};
  chapter.make_problem = make_problem;
  chapter.verification_problems = verification_problems;
  chapter.benchmark_problems = benchmark_problems;
  return chapter;
}

}  // namespace opbook::ch13
