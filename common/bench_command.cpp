#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "common/bench_problem.hpp"
#include "common/chapter.hpp"
#include "common/compare.hpp"
#include "common/counters.hpp"
#include "common/cuda/bench_on_device.hpp"
#include "common/cuda/device_tensors.hpp"
#include "common/error.hpp"
#include "common/files.hpp"
#include "common/once_command.hpp"
#include "common/results.hpp"
#include "common/show.hpp"
#include "common/verify_problem.hpp"

namespace opbook {
namespace {

/// Correctness gates timing: the operator on few rows of the same width, on the CPU written past
/// the caches as the timed run does. Returns the largest error of its outputs.
double verified_ulp(const Problem& problem, Device device) {
  const Problem few = problem.with_rows(64);
  Tensors tensors(few.tensors);
  fill_inputs(few, tensors, 1);
  Fast fast(Stores::streaming);
  std::optional<gpu::DeviceTensors> on_device;
  if (device == Device::cuda) on_device.emplace(few.tensors);
  const Run run = on_device ? run_on_device(few, *on_device) : run_on_cpu(few, fast);
  const Twin twin = on_device ? Twin::second_run : Twin::replay;
  double worst = 0;
  for (const Finding& finding : verify_problem(few, tensors, run, twin)) {
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

std::filesystem::path results_path(const Chapter& chapter, const GivenFlags& given, Device device,
                                   const MachineInfo& machine) {
  std::string name = chapter.name + (given.contains("--plan") ? "_steps" : "");
  // One operator leaves the whole chapter's results as they are.
  if (given.contains("--op")) name += "_" + given.at("--op");
  if (given.contains("--record")) return record_path(machine, name);
  if (given.contains("--out")) return given.at("--out");
  return default_results_path(name, device);
}

constexpr std::string_view all_steps = "steps";

/// What `--plan` leaves to choose from: one operator's steps, or all of every operator that has
/// some. Throws ArgumentError for any other plan.
std::vector<std::string> stepped_operators(const Chapter& chapter, const GivenFlags& given) {
  const std::string& plan = given.at("--plan");
  if (given.contains("--counters")) {
    throw ArgumentError("--counters: given with --plan; allowed: without it");
  }
  if (given.contains("--op")) return {given.at("--op")};
  refuse_without_op(chapter, given);
  if (plan != all_steps || chapter.stepped_operators.empty()) {
    throw ArgumentError(
        fmt::format("--plan: got \"{}\" without --op; allowed: {}", plan,
                    chapter.stepped_operators.empty()
                        ? fmt::format("none, since {} has no steps", chapter.name)
                        : fmt::format("steps, or with --op {}",
                                      fmt::join(chapter.stepped_operators, " or --op "))));
  }
  return chapter.stepped_operators;
}

/// The steps that `--plan` names, a problem each.
std::vector<Problem> step_problems(const Chapter& chapter, const GivenFlags& given) {
  const std::string& plan = given.at("--plan");
  GivenFlags sized = given;
  sized.insert(chapter.step_arguments.begin(), chapter.step_arguments.end());
  std::vector<Problem> problems;
  for (const std::string& op : stepped_operators(chapter, given)) {
    // As given at first: what has no steps may not take the steps' arguments either.
    if (chapter.make_problem(op, given, {}).steps.empty()) {
      throw ArgumentError(fmt::format(
          "--plan: got \"{}\", but {} has no steps; allowed: {}", plan, op,
          chapter.stepped_operators.empty()
              ? "without it"
              : fmt::format("with --op {}", fmt::join(chapter.stepped_operators, " or --op "))));
    }
    const Problem problem = chapter.make_problem(op, sized, {});
    std::vector<std::string_view> allowed;
    for (const Step& step : problem.steps) allowed.push_back(step.name);
    allowed.push_back(all_steps);
    const std::size_t chosen = parse_choice("--plan", plan, allowed);
    for (std::size_t i = 0; i < problem.steps.size(); ++i) {
      if (plan == all_steps || i == chosen) problems.push_back(step_of(problem, i));
    }
  }
  return problems;
}

/// What is timed: one operator, or the chapter's choice for the device.
std::vector<Problem> timed_problems(const Chapter& chapter, const GivenFlags& given, Device device,
                                    std::int64_t working_set) {
  if (given.contains("--op")) return {chapter.make_problem(given.at("--op"), given, {})};
  refuse_without_op(chapter, given);
  if (device == Device::cpu) return chapter.benchmark_problems(working_set);
  if (!chapter.device_benchmark_problems) {
    throw DeviceUnavailable(fmt::format(
        "--device: got \"cuda\", for which {} has no kernels; allowed: cpu", chapter.name));
  }
  return chapter.device_benchmark_problems(given.contains("--quick"));
}

std::vector<ResultRow> timed_rows(const Problem& problem, Device device, const MachineInfo& machine,
                                  std::int64_t llc_bytes, const TimingOptions& options) {
  if (device == Device::cuda) return gpu::bench_on_device(problem, machine, options);
  Tensors tensors(problem.tensors);
  fill_inputs(problem, tensors, 1);
  return bench_problem(problem, tensors, llc_bytes, options);
}

/// The row of the one step that the problem has.
std::vector<ResultRow> timed_step(const Problem& problem, const MachineInfo& machine,
                                  const TimingOptions& options) {
  constexpr PlanKind stepped[] = {PlanKind::fused};
  std::vector<ResultRow> rows = gpu::bench_on_device(problem, machine, options, stepped);
  rows.front().plan = problem.steps.front().name;
  rows.front().adds = problem.steps.front().adds;
  return rows;
}

std::string cold_how(Device device, bool one_operator, std::int64_t working_set) {
  if (device == Device::cuda) return "The L2 flushed before each sample.";
  if (one_operator) return "The caches flushed before each sample.";
  return fmt::format("Working set {} MB (four last-level caches, at most a quarter of memory).",
                     working_set / 1000000);
}

/// What the GPU's counters say of both plans. Once they cannot be read, the reason stands for all
/// that follow: it does not change from row to row.
class PlanCounters {
 public:
  PlanCounters(const Chapter& chapter, const GivenFlags& given) : chapter_(chapter), given_(given) {
    if (!given.contains("--counters")) refusal_ = "not read; bench --counters does";
  }

  void add_to(ResultRow& row, std::size_t cell) {
    const PlanKind plan = row.plan == "fused" ? PlanKind::fused : PlanKind::unfused;
    if (refusal_.empty()) {
      const Counters counted = count_plan(once_command(chapter_, given_, cell, plan));
      row.dram_bytes = counted.dram();
      row.dram_read_bytes = counted.dram_read;
      row.l2_bytes = counted.l2;
      if (!row.dram_bytes) refusal_ = counted.note;
    }
    if (!row.dram_bytes) row.counters_note = refusal_;
  }

 private:
  const Chapter& chapter_;
  const GivenFlags& given_;
  std::string refusal_;
};

Outcome run_bench(const Chapter& chapter, const GivenFlags& given) {
  const bool stepped = given.contains("--plan");
  std::vector<Problem> problems;
  if (stepped) problems = step_problems(chapter, given);
  const Device device = chosen_device(given);
  if (stepped && device == Device::cpu) {
    throw ArgumentError(
        fmt::format("--plan: got \"{}\" on the CPU; allowed: with --device cuda, "
                    "since steps are a GPU's",
                    given.at("--plan")));
  }
  if (given.contains("--counters") && device == Device::cpu) {
    throw ArgumentError(
        "--counters: given on the CPU; allowed: with --device cuda, since counters are a GPU's");
  }
  refuse_partial_record(given);
  Results results;
  results.machine = device == Device::cuda ? describe_device() : describe_cpu();
  const std::int64_t llc = std::max<std::int64_t>(results.machine.llc_bytes, 1 << 20);
  const std::int64_t working_set = cold_working_set_bytes(llc, results.machine.memory_bytes);
  if (!stepped) problems = timed_problems(chapter, given, device, working_set);
  TimingOptions options;
  if (given.contains("--quick")) {
    options = {.warmup = 1, .min_samples = 7, .max_samples = 31, .max_seconds = 0.5};
  }

  PlanCounters counters(chapter, given);
  Outcome outcome;
  for (std::size_t p = 0; p < problems.size(); ++p) {
    const Problem& problem = problems[p];
    progress(fmt::format("bench {}/{} {} {}", p + 1, problems.size(), problem.op,
                         name_of(problem.dtype)));
    const double worst_ulp = verified_ulp(problem, device);
    for (ResultRow& row : stepped ? timed_step(problem, results.machine, options)
                                  : timed_rows(problem, device, results.machine, llc, options)) {
      if (row.plan != "unfused") row.worst_ulp = worst_ulp;
      if (device == Device::cuda && !stepped && row.temperature == "cold") {
        counters.add_to(row, p);
      }
      const std::string impossible = gpu::impossible_rate(row, results.machine);
      if (impossible.empty()) {
        results.rows.push_back(std::move(row));
      } else {  // an error in the timing, and no result
        outcome.exit_code = 1;
        outcome.err += fmt::format("{}: {}\n", chapter.name, impossible);
      }
    }
  }
  progress("");

  const std::filesystem::path path = results_path(chapter, given, device, results.machine);
  write_results(path, results);
  if (given.contains("--record") && results.machine.commit.ends_with("-dirty")) {
    outcome.err += fmt::format(
        "{}: recorded from files that differ from their commit ({}), so that nobody else can "
        "repeat it\n",
        chapter.name, results.machine.commit);
  }
  if (given.contains("--json")) {
    outcome.out = read_file(path);
  } else {
    outcome.out = render_results(results) +
                  fmt::format("\n{} Written to {}\n",
                              cold_how(device, given.contains("--op"), working_set), path.string());
  }
  return outcome;
}

}  // namespace

Subcommand bench_subcommand(const Chapter& chapter) {
  std::vector<Flag> flags = {{"--op", "OP", "one operator; default: all"}};
  flags.insert(flags.end(), chapter.argument_flags.begin(), chapter.argument_flags.end());
  flags.push_back({"--plan", "STEP", "on a GPU: a step towards the fused plan, or all: steps"});
  flags.push_back({"--quick", "", "fewer samples, wider bounds"});
  flags.push_back(device_flag());
  flags.push_back({"--counters", "", "on a GPU: DRAM bytes by its own counters, through ncu"});
  flags.push_back({"--out", "FILE", "where to write the results"});
  flags.push_back({"--record", "", "write them to results/<machine>/, to be committed"});
  flags.push_back({"--json", "", "print the results file"});
  return {"bench", "both plans against the clock and the roof", flags,
          [chapter](const GivenFlags& given) { return run_bench(chapter, given); }};
}

}  // namespace opbook
