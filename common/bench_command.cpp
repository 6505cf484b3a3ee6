#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/bench_problem.hpp"
#include "common/chapter.hpp"
#include "common/compare.hpp"
#include "common/error.hpp"
#include "common/files.hpp"
#include "common/results.hpp"
#include "common/show.hpp"
#include "common/verify_problem.hpp"

namespace opbook {
namespace {

/// Correctness gates timing: the operator on few rows of the same width, written past the caches as
/// the timed run does. Returns the largest error of its outputs.
double verified_ulp(const Problem& problem) {
  const Problem few = problem.with_rows(64);
  Tensors tensors(few.tensors);
  fill_inputs(few, tensors, 1);
  Fast fast(Stores::streaming);
  double worst = 0;
  for (const Finding& finding : verify_problem(few, tensors, fast)) {
    if (!finding.pass) {
      throw CheckFailed(fmt::format("{} {} {} {}: wrong, so not timed: {}", few.op,
                                    name_of(few.dtype), finding.plan, finding.kernel,
                                    finding.detail));
    }
    if (finding.plan == "fused") worst = std::max(worst, finding.worst_ulp);
  }
  return worst;
}

/// A record is the whole chapter, in its one place.
void refuse_partial_record(const GivenFlags& given) {
  if (!given.contains("--record")) return;
  for (const char* const flag : {"--op", "--out"}) {
    if (!given.contains(flag)) continue;
    throw ArgumentError(fmt::format("--record: given with {}; allowed: without it", flag));
  }
}

std::filesystem::path results_path(const Chapter& chapter, const GivenFlags& given,
                                   const MachineInfo& machine) {
  if (given.contains("--record")) return record_path(machine, chapter.name);
  if (given.contains("--out")) return given.at("--out");
  return default_results_path(chapter.name);
}

Outcome run_bench(const Chapter& chapter, const GivenFlags& given) {
  require_cpu(given);
  refuse_partial_record(given);
  const bool quick = given.contains("--quick");
  Results results;
  results.machine = describe_cpu();
  const std::int64_t llc = std::max<std::int64_t>(results.machine.llc_bytes, 1 << 20);
  const std::int64_t working_set = cold_working_set_bytes(llc, results.machine.memory_bytes);

  std::vector<Problem> problems;
  if (given.contains("--op")) {
    problems.push_back(chapter.make_problem(given.at("--op"), given, {}));
  } else {
    refuse_without_op(chapter, given);
    problems = chapter.benchmark_problems(working_set);
  }
  TimingOptions options;
  if (quick) options = {.warmup = 1, .min_samples = 7, .max_samples = 31, .max_seconds = 0.5};

  for (std::size_t p = 0; p < problems.size(); ++p) {
    const Problem& problem = problems[p];
    progress(fmt::format("bench {}/{} {} {}", p + 1, problems.size(), problem.op,
                         name_of(problem.dtype)));
    const double worst_ulp = verified_ulp(problem);
    Tensors tensors(problem.tensors);
    fill_inputs(problem, tensors, 1);
    for (ResultRow& row : bench_problem(problem, tensors, llc, options)) {
      if (row.plan == "fused") row.worst_ulp = worst_ulp;
      results.rows.push_back(std::move(row));
    }
  }
  progress("");

  const std::filesystem::path path = results_path(chapter, given, results.machine);
  write_results(path, results);
  Outcome outcome;
  if (given.contains("--record") && results.machine.commit.ends_with("-dirty")) {
    outcome.err = fmt::format(
        "{}: recorded from files that differ from their commit ({}), so that nobody else can "
        "repeat it\n",
        chapter.name, results.machine.commit);
  }
  if (given.contains("--json")) {
    outcome.out = read_file(path);
  } else {
    outcome.out = render_results(results) +
                  fmt::format(
                      "\nWorking set {} MB (four last-level caches, at most a quarter of "
                      "memory). Written to {}\n",
                      working_set / 1000000, path.string());
  }
  return outcome;
}

}  // namespace

Subcommand bench_subcommand(const Chapter& chapter) {
  std::vector<Flag> flags = {{"--op", "OP", "one operator; default: all"}};
  flags.insert(flags.end(), chapter.argument_flags.begin(), chapter.argument_flags.end());
  flags.push_back({"--quick", "", "fewer samples, wider bounds"});
  flags.push_back({"--device", "cpu", "where to run"});
  flags.push_back({"--out", "FILE", "where to write the results"});
  flags.push_back({"--record", "", "write them to results/<machine>/, to be committed"});
  flags.push_back({"--json", "", "print the results file"});
  return {"bench", "both plans against the clock and the roof", flags,
          [chapter](const GivenFlags& given) { return run_bench(chapter, given); }};
}

}  // namespace opbook
