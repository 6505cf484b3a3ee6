#include "ch28_design/chapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "ch28_design/ledger_command.hpp"
#include "common/error.hpp"

namespace opbook::ch28 {
namespace {

constexpr Dtype input_dtypes[] = {Dtype::bfloat16, Dtype::float16};

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

std::vector<Flag> run_flags() {
  std::vector<Flag> flags = size_flags();
  flags.push_back({"--dtype", "TYPE",
                   "of heads and weights: bfloat16, float16; default: the files', or bfloat16"});
  flags.push_back({"--design", "A|B|C|D", "how rows are cut into blocks; default D, ours"});
  flags.push_back({"--layout", "NAME", "packed (default): q and k; qkv: v behind them, not read"});
  flags.push_back({"--eps", "X", "added to the mean square, default 1e-6"});
  flags.push_back({"--with-y", "", "the fused plan writes y too, in float32"});
  return flags;
}

/// Positions that a reader brings. Tables that are not brought along reach as far as they do.
PickedRows picked_by(const Array& positions, const Files& files) {
  if (is_float(positions.dtype())) {
    throw ArgumentError(fmt::format("--positions: got {}; allowed: int32, int64",
                                    opbook::name_of(positions.dtype())));
  }
  std::set<double> named;
  for (std::int64_t i = 0; i < positions.elements(); ++i) named.insert(positions.value(i));
  std::int64_t rows = named.empty() ? 1 : static_cast<std::int64_t>(*named.rbegin()) + 1;
  if (const auto cos = files.find("cos"); cos != files.end()) rows = cos->second.row_count();
  return {std::max<std::int64_t>(1, rows), static_cast<std::int64_t>(named.size()),
          positions.dtype()};
}

/// The dtype that a reader's heads or weights bring along; without them the default. Throws
/// ArgumentError for one that the operator does not take.
Dtype dtype_of_files(const Files& files) {
  for (const char* const name : {"x", "q_weight", "k_weight"}) {
    const auto found = files.find(name);
    if (found == files.end()) continue;
    const Dtype dtype = found->second.dtype();
    if (std::count(std::begin(input_dtypes), std::end(input_dtypes), dtype) == 0) {
      throw ArgumentError(
          fmt::format("--{}: got {}; allowed: bfloat16, float16", name, opbook::name_of(dtype)));
    }
    return dtype;
  }
  return Dtype::bfloat16;
}

/// A file that is no input of the operator would be ignored: it is refused.
void refuse_files_not_taken(const Problem& problem, const Files& files) {
  for (const auto& [name, file] : files) {
    const auto is_it = [&, &name = name](const TensorSpec& spec) {
      return spec.role == Role::input && spec.name == name;
    };
    if (std::any_of(problem.tensors.begin(), problem.tensors.end(), is_it)) continue;
    throw ArgumentError(fmt::format("--{}: given, but no head takes it; allowed: none", name));
  }
}

Problem problem_of_flags(const std::string& op, const GivenFlags& given, const Files& files) {
  constexpr std::string_view ops[] = {"qk_norm_rope_quant"};
  parse_choice("--op", op, ops);
  RunArguments a;
  a.sizes = parse_sizes(given);
  a.options.dtype = parse_dtype(
      "--dtype", value_or(given, "--dtype", name_of(dtype_of_files(files))), input_dtypes);
  a.options.with_y = given.contains("--with-y");
  constexpr std::string_view designs[] = {"A", "B", "C", "D"};
  a.design = all_designs[parse_choice("--design", value_or(given, "--design", "D"), designs)];
  if (given.contains("--rows-per-block") && a.design != Design::B) {
    throw ArgumentError(fmt::format(
        "--rows-per-block: given with design {}; allowed: with --design B", name_of(a.design)));
  }
  constexpr std::string_view layouts[] = {"packed", "qkv"};
  a.layout =
      static_cast<Layout>(parse_choice("--layout", value_or(given, "--layout", "packed"), layouts));
  if (given.contains("--eps")) a.eps = parse_eps(given.at("--eps"));
  if (const auto found = files.find("positions"); found != files.end()) {
    a.options.positions = picked_by(found->second, files);
    if (a.design != Design::D) {
      throw ArgumentError(
          fmt::format("--positions: given with --design {}; allowed: D, whose "
                      "ledger does not depend on where they repeat",
                      name_of(a.design)));
    }
  }
  try {
    Problem problem = named_problem(a);
    refuse_files_not_taken(problem, files);
    return problem;
  } catch (const ArgumentError& error) {
    throw ArgumentError(in_flags(error.what(), a.sizes));
  }
}

struct Heads {
  std::int64_t q, kv;
};
/// As models have them: grouped, a single kv head, q alone, k alone, one for one.
constexpr Heads verified_heads[] = {{32, 8}, {28, 4}, {16, 1}, {5, 0}, {0, 3}, {4, 4}, {1, 1}};
constexpr std::int64_t verified_widths[] = {64, 96, 128, 192, 256, 2, 34, 130};

std::vector<Problem> verification_problems() {
  std::vector<Problem> problems;
  std::int64_t count = 0;
  for (const Dtype dtype : input_dtypes) {
    for (const Design design : all_designs) {
      for (const std::int64_t width : verified_widths) {
        const auto [q_heads, kv_heads] = verified_heads[count % std::size(verified_heads)];
        RunArguments a;
        a.design = design;
        a.sizes.tokens = 1 + count % 6;
        a.sizes.q_heads = q_heads;
        a.sizes.kv_heads = kv_heads;
        a.sizes.head_dim = width;
        if (count % 3 == 0) a.sizes.rope_dim = std::max<std::int64_t>(2, width / 4 * 2);
        constexpr std::int64_t blocks[] = {2, 7, 8, 16, 33, 64};
        a.sizes.rows_per_block = blocks[count % std::size(blocks)];
        a.options.dtype = dtype;
        a.options.with_y = count % 4 == 1;
        if (count % 5 < 2) {  // sequences of three tokens
          a.options.positions = {9, std::min<std::int64_t>(3, a.sizes.tokens),
                                 count % 5 == 0 ? Dtype::int32 : Dtype::int64};
        }
        a.layout = count % 2 == 0 ? Layout::packed : Layout::qkv;
        problems.push_back(named_problem(a));
        ++count;
      }
    }
  }
  return problems;
}

RunArguments run_of(Design design, Dtype dtype, std::int64_t tokens) {
  RunArguments a;
  a.design = design;
  a.options.dtype = dtype;
  a.sizes.tokens = tokens;
  return a;
}

std::vector<Problem> benchmark_problems(std::int64_t bytes) {
  std::vector<Problem> problems;
  for (const Design design : all_designs) {
    for (const Dtype dtype : input_dtypes) {
      constexpr std::int64_t some = 1024;
      const std::int64_t a_token =
          operator_ledger(run_of(design, dtype, some).sizes, Convention::exact).ideal_bytes / some;
      problems.push_back(
          named_problem(run_of(design, dtype, std::max<std::int64_t>(1, bytes / a_token))));
    }
  }
  return problems;
}

/// Every design at the book's size and at one far beyond an L2; ours from one token up, and with
/// other heads and widths.
std::vector<Problem> device_benchmark_problems(bool quick) {
  std::vector<Problem> problems;
  for (const std::int64_t tokens : {4096, 32768}) {
    for (const Design design : all_designs) {
      problems.push_back(named_problem(run_of(design, Dtype::bfloat16, tokens)));
    }
  }
  if (quick) return problems;
  for (const std::int64_t tokens : {1, 8, 256, 1024, 8192, 16384}) {
    for (const Design design : all_designs) {
      problems.push_back(named_problem(run_of(design, Dtype::bfloat16, tokens)));
    }
  }
  problems.push_back(named_problem(run_of(Design::D, Dtype::float16, 32768)));
  for (const std::int64_t width : {64, 96, 192, 256}) {
    RunArguments a = run_of(Design::D, Dtype::bfloat16, 32768 * 128 / width);
    a.sizes.head_dim = width;
    problems.push_back(named_problem(a));
  }
  RunArguments a = run_of(Design::D, Dtype::bfloat16, 32768);
  a.sizes.q_heads = 28;
  a.sizes.kv_heads = 4;
  problems.push_back(named_problem(a));
  return problems;
}

}  // namespace

Problem named_problem(const RunArguments& arguments) {
  Problem problem = make_problem(arguments);
  if (arguments.design != Design::D) {
    problem.op += fmt::format(" (design {})", name_of(arguments.design));
  }
  return problem;
}

Chapter chapter() {
  Chapter chapter;
  chapter.name = "ch28";
  chapter.argument_flags = run_flags();
  chapter.input_names = {"x", "q_weight", "k_weight", "cos", "sin", "positions"};
  chapter.make_problem = problem_of_flags;
  chapter.verification_problems = verification_problems;
  chapter.benchmark_problems = benchmark_problems;
  chapter.device_benchmark_problems = device_benchmark_problems;
  chapter.smallest_cache_bytes = 1 << 10;  // a head, its weight and its angles are more
  return chapter;
}

}  // namespace opbook::ch28
