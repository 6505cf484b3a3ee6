#include "ch13_norm_rope/chapter.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "ch13_norm_rope/ledger_command.hpp"
#include "ch13_norm_rope/operators.hpp"
#include "common/error.hpp"

namespace opbook::ch13 {
namespace {

bool takes(const Operator& entry, std::string_view argument) {
  return std::find(entry.arguments.begin(), entry.arguments.end(), argument) !=
         entry.arguments.end();
}

/// `rows` rows of `columns`: tokens where the operator has tokens, as many elements where it has
/// only a length.
Arguments with_shape(const Operator& entry, Arguments arguments, std::int64_t rows,
                     std::int64_t columns) {
  if (takes(entry, "m")) {
    arguments.m = rows;
    arguments.n = columns;
  } else if (takes(entry, "tokens")) {
    arguments.tokens = rows;
  } else {
    arguments.n = rows * columns;
  }
  return arguments;
}

Arguments with_rows(const Operator& entry, const Arguments& arguments, std::int64_t rows) {
  return with_shape(entry, arguments, rows, takes(entry, "m") ? arguments.n : 4096);
}

Problem make(const Operator& entry, const Arguments& arguments) {
  Problem problem = entry.make_problem(arguments);
  problem.with_rows = [&entry, arguments](std::int64_t rows) {
    return make(entry, with_rows(entry, arguments, rows));
  };
  return problem;
}

float parse_number(const char* flag, const std::string& text, float least, const char* allowed) {
  float number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || !(number >= least) || !std::isfinite(number)) {
    throw ArgumentError(fmt::format("{}: got \"{}\"; allowed: {}", flag, text, allowed));
  }
  return number;
}

/// What a run may vary and the book does not print: one flag for each option that an operator may
/// have.
std::vector<Flag> run_flags() {
  return {{"--eps", "X", "added to the mean square or the variance, default 1e-6"},
          {"--rounding", "MODE", "once (default), or before_weight as Hugging Face rounds"},
          {"--weight-offset", "0|1", "1: multiply by 1 + w (Gemma); default 0"},
          {"--scale", "A", "the a of x * a + b, default 0.7"}};
}

void refuse_options_not_taken(const Operator& entry, const GivenFlags& given) {
  std::vector<std::string> taken;
  for (const std::string_view option : entry.options) taken.push_back(flag_name(option));
  for (const Flag& flag : run_flags()) {
    if (!given.contains(flag.name)) continue;
    if (std::find(taken.begin(), taken.end(), flag.name) != taken.end()) continue;
    throw ArgumentError(
        fmt::format("{}: given, but {} does not take it; allowed: {}", flag.name, entry.name,
                    taken.empty() ? "none" : fmt::format("{}", fmt::join(taken, ", "))));
  }
}

void parse_run_flags(const Operator& entry, const GivenFlags& given, Arguments& arguments) {
  refuse_options_not_taken(entry, given);
  if (given.contains("--eps")) {
    arguments.eps = parse_number("--eps", given.at("--eps"), 0, "a finite number, 0 or above");
  }
  if (given.contains("--scale")) {
    constexpr float least = std::numeric_limits<float>::lowest();
    arguments.scale = parse_number("--scale", given.at("--scale"), least, "a finite number");
  }
  constexpr std::string_view roundings[] = {"once", "before_weight"};
  const std::string rounding = value_or(given, "--rounding", "once");
  arguments.rounding = static_cast<Rounding>(parse_choice("--rounding", rounding, roundings));
  constexpr std::string_view offsets[] = {"0", "1"};
  const std::string offset = value_or(given, "--weight-offset", "0");
  arguments.weight_offset = static_cast<int>(parse_choice("--weight-offset", offset, offsets));
}

/// A size that a reader's file brings along; a flag that says otherwise is refused.
void take_size(const GivenFlags& given, const std::string& flag, std::int64_t from_file,
               std::int64_t& argument) {
  if (given.contains(flag) && argument != from_file) {
    throw ArgumentError(
        fmt::format("{}: got {}; allowed: {}, as the files have it", flag, argument, from_file));
  }
  if (from_file < 1) {
    throw ArgumentError(fmt::format("{}: got {} from the files; allowed: a whole number above zero",
                                    flag, from_file));
  }
  argument = from_file;
}

void require_rank(std::string_view name, const Array& file, std::size_t rank, bool or_more) {
  const std::size_t got = file.shape().size();
  if (got == rank || (or_more && got > rank)) return;
  throw ArgumentError(fmt::format("--{}: got rank {}; allowed: rank {}{}", name, got, rank,
                                  or_more ? " or more" : ""));
}

/// Sizes and dtype of the first of the operator's inputs that there is a file for: of x, mostly.
void take_sizes(const Operator& entry, const Files& files, const GivenFlags& given,
                Arguments& arguments) {
  for (const Input& input : entry.inputs) {
    const auto found = files.find(input.name);
    if (input.sizes.empty() || found == files.end()) continue;
    const Array& file = found->second;
    const std::size_t rank = input.sizes.size();
    require_rank(input.name, file, rank == 2 ? 1 : rank, rank > 1);  // one row is a matrix too
    std::int64_t leading = file.elements();
    for (std::size_t i = rank; i-- > 0;) {
      const std::string_view size = input.sizes[i];
      const std::int64_t from_file = i == 0 ? leading : file.shape().end()[i - rank];
      take_size(given, flag_name(size), from_file, arguments.*find_field(size)->size);
      leading /= from_file;
    }
    arguments.dtype = file.dtype();
    return;
  }
}

/// The width of the RoPE tables, and their rows where positions pick among them.
void take_tables(const Files& files, const GivenFlags& given, Arguments& arguments) {
  std::int64_t table_rows = 0;
  for (const std::string name : {"cos", "sin"}) {
    const auto found = files.find(name);
    if (found == files.end()) continue;
    require_rank(name, found->second, 2, false);
    take_size(given, "--rope-dim", 2 * found->second.cols(), arguments.rope_dim);
    table_rows = found->second.row_count();
  }
  const auto found = files.find("positions");
  if (found == files.end()) return;
  const Array& file = found->second;
  if (is_float(file.dtype())) {
    throw ArgumentError(
        fmt::format("--positions: got {}; allowed: int32, int64", name_of(file.dtype())));
  }
  std::set<double> named;
  for (std::int64_t i = 0; i < file.elements(); ++i) named.insert(file.value(i));
  const double last = named.empty() ? 0 : *named.rbegin();
  // Tables that are not brought along reach as far as the positions do.
  if (table_rows == 0) table_rows = std::max<std::int64_t>(1, static_cast<std::int64_t>(last) + 1);
  arguments.positions = {table_rows, static_cast<std::int64_t>(named.size()), file.dtype()};
}

/// A file that is no input of the operator would be ignored: it is refused.
void refuse_files_not_taken(const Problem& problem, const Files& files) {
  std::vector<std::string> inputs;
  for (const TensorSpec& spec : problem.tensors) {
    if (spec.role == Role::input) inputs.push_back("--" + spec.name);
  }
  for (const auto& [name, file] : files) {
    if (std::find(inputs.begin(), inputs.end(), "--" + name) != inputs.end()) continue;
    throw ArgumentError(fmt::format("--{}: given, but {} does not take it; allowed: {}", name,
                                    problem.op, fmt::join(inputs, ", ")));
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
  take_sizes(entry, files, given, arguments);
  take_tables(files, given, arguments);
  Problem problem = make(entry, arguments);
  refuse_files_not_taken(problem, files);
  return problem;
}

/// Widths that break vector loops: below, at and beyond the lanes of a register, odd, and no
/// multiple of anything; then those of real models.
constexpr std::int64_t verified_columns[] = {1, 2, 3, 7, 64, 513, 769, 1368, 3584, 4096, 5120};

/// What else an operator may take beside `rows` rows of `columns`: all of it varies with them.
void vary(Arguments& arguments, std::int64_t rows, std::int64_t columns) {
  arguments.weight_offset = rows % 2;
  arguments.rounding = rows % 3 == 0 ? Rounding::before_weight : Rounding::once;
  arguments.heads = rows % 5 + 1;
  const std::int64_t even = columns / 2 * 2;
  arguments.rope_dim = rows % 2 == 0 ? even : std::min<std::int64_t>(even, 128);
  arguments.with_y = rows % 2 == 0;
  arguments.group_size = 0;
  if (rows % 3 != 0) {
    arguments.group_size = std::min<std::int64_t>(columns, 128);
    while (columns % arguments.group_size != 0) --arguments.group_size;
  }
  arguments.positions = {};
  if (rows % 4 < 2) {  // sequences of five tokens
    arguments.positions = {9, 5, rows % 4 == 0 ? Dtype::int32 : Dtype::int64};
  }
}

std::vector<Problem> verification_problems() {
  std::vector<Problem> problems;
  for (const Operator& entry : operators()) {
    if (entry.make_problem == nullptr) continue;
    for (const Dtype dtype : input_dtypes) {
      Arguments arguments = entry.defaults;
      arguments.dtype = dtype;
      std::int64_t rows = 1;
      for (const std::int64_t n : verified_columns) {
        rows = rows % 23 + 6;
        if (takes(entry, "rope_dim") && n < 2) continue;  // no pair to turn
        vary(arguments, rows, n);
        problems.push_back(make(entry, with_shape(entry, arguments, rows, n)));
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

/// What a GPU is timed on: from one row, as in decoding, to far more than its L2 holds; narrow
/// and wide.
constexpr std::int64_t device_shapes[][2] = {{4096, 4096},  {16384, 4096}, {16384, 8192},
                                             {4096, 16384}, {65536, 1024}, {8192, 32768},
                                             {1, 4096},     {256, 4096}};

/// One operator at `rows` rows of `columns`; RoPE takes as many elements in heads of rope_dim, from
/// one token up. Operators for which several shapes are the same are there once.
void add_device_problem(const Operator& entry, Dtype dtype, std::int64_t rows, std::int64_t columns,
                        std::vector<Problem>& problems) {
  Arguments arguments = entry.defaults;
  arguments.dtype = dtype;
  const bool has_tokens = takes(entry, "tokens");
  if (has_tokens && rows == 1) return;
  if (has_tokens) rows = rows * columns / (arguments.heads * arguments.rope_dim);
  Problem problem = make(entry, with_shape(entry, arguments, rows, columns));
  const bool there = std::any_of(problems.begin(), problems.end(), [&](const Problem& other) {
    return other.op == problem.op && other.dtype == problem.dtype && other.shape == problem.shape;
  });
  if (!there) problems.push_back(std::move(problem));
}

/// The quantisation that keeps y and has a scale for each 128 columns, under a name of its own.
Problem grouped_quantisation(std::int64_t rows, std::int64_t columns) {
  const Operator& entry = *find_operator("rms_norm_rope_quant");
  Arguments arguments = with_shape(entry, entry.defaults, rows, columns);
  arguments.dtype = Dtype::bfloat16;
  arguments.group_size = 128;
  arguments.with_y = true;
  Problem problem = make(entry, arguments);
  problem.op += " (y, groups of 128)";
  return problem;
}

std::vector<Problem> device_benchmark_problems(bool quick) {
  std::vector<Problem> problems;
  for (const Operator& entry : operators()) {
    if (entry.make_problem == nullptr) continue;
    for (const auto& [rows, columns] : device_shapes) {
      const bool large = rows == 16384 && columns == 8192;
      if (quick && !large && !(rows == 4096 && columns == 4096)) continue;
      add_device_problem(entry, Dtype::bfloat16, rows, columns, problems);
      if (quick || !large) continue;
      add_device_problem(entry, Dtype::float16, rows, columns, problems);
      add_device_problem(entry, Dtype::float32, rows, columns, problems);
      if (entry.name == "rms_norm_rope_quant")
        problems.push_back(grouped_quantisation(rows, columns));
    }
    if (entry.name == "rope" && !quick)
      add_device_problem(entry, Dtype::bfloat16, 8192, 4096, problems);
  }
  return problems;
}

/// Of all operators, each once.
std::vector<std::string> input_names() {
  std::vector<std::string> names;
  for (const Operator& entry : operators()) {
    for (const Input& input : entry.inputs) {
      if (std::find(names.begin(), names.end(), input.name) == names.end()) {
        names.emplace_back(input.name);
      }
    }
  }
  return names;
}

}  // namespace

Chapter chapter() {
  Chapter chapter;
  chapter.name = "ch13";
  chapter.argument_flags = argument_flags();
  for (const Flag& flag : run_flags()) chapter.argument_flags.push_back(flag);
  chapter.input_names = input_names();
  chapter.make_problem = make_problem;
  chapter.verification_problems = verification_problems;
  chapter.benchmark_problems = benchmark_problems;
  chapter.device_benchmark_problems = device_benchmark_problems;
  chapter.stepped_operators = {"rms_norm", "rms_norm_rope_quant"};
  chapter.step_arguments = {{"--m", "16384"}, {"--n", "8192"}, {"--dtype", "bfloat16"}};
  return chapter;
}

}  // namespace opbook::ch13
