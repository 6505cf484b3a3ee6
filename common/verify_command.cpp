#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "common/chapter.hpp"
#include "common/cuda/device_tensors.hpp"
#include "common/npy.hpp"
#include "common/table.hpp"
#include "common/verify_problem.hpp"

namespace opbook {
namespace {

using nlohmann::ordered_json;

Files load_files(const Chapter& chapter, const GivenFlags& given) {
  std::optional<Dtype> dtype;
  if (const auto found = given.find("--dtype"); found != given.end()) {
    const Dtype allowed[] = {Dtype::float32, Dtype::float16, Dtype::bfloat16};
    dtype = parse_dtype("--dtype", found->second, allowed);
  }
  Files files;
  for (const std::string& name : chapter.input_names) {
    const auto found = given.find("--" + name);
    if (found == given.end()) continue;
    // Positions are integers, whatever the dtype of the tensors.
    files.emplace(
        name, load_npy(found->second, name, name == "positions" ? std::optional<Dtype>() : dtype));
  }
  return files;
}

/// Copies a reader's file into the operator's tensor; its leading dimensions may be split as the
/// reader likes.
void take(const Array& file, const TensorSpec& spec, Array& tensor) {
  const bool vector = spec.shape.size() == 1;
  const auto text = [](const std::vector<std::int64_t>& shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
  };
  if (file.dtype() != spec.dtype) {
    throw ArgumentError(fmt::format("--{}: got {}; allowed: {}", spec.name, name_of(file.dtype()),
                                    name_of(spec.dtype)));
  }
  const bool right_rank = vector ? file.shape().size() == 1 : !file.shape().empty();
  if (!right_rank || file.cols() != tensor.cols() || file.row_count() != tensor.row_count()) {
    throw ArgumentError(fmt::format("--{}: got shape {}; allowed: {}{}", spec.name,
                                    text(file.shape()), text(spec.shape),
                                    vector ? "" : ", rows split over any leading dimensions"));
  }
  std::copy_n(file.raw(), file.bytes(), tensor.raw());
}

void save(const std::string& folder, const Problem& problem, const Tensors& tensors) {
  if (folder.empty()) throw ArgumentError("--save: got \"\"; allowed: a folder");
  for (const TensorSpec& spec : problem.tensors) {
    if (spec.role != Role::input && spec.role != Role::output) continue;
    save_npy(std::filesystem::path(folder) / (spec.name + ".npy"), tensors.at(spec.name));
  }
}

/// The findings of one kernel, or of a whole plan, over all problems that have it. The value that
/// came nearest to its tolerance stands for all.
struct Line {
  std::string op, dtype, plan, kernel;  // kernel: empty where the line speaks of the whole plan
  Finding nearest;
  int problems = 0;
  int failures = 0;
  std::string first_failure;
};

double share_of_tolerance(const Finding& finding) {
  return finding.tensor.empty() ? -1 : finding.worst_ulp / finding.tolerance_ulp;
}

void gather(const Problem& problem, const std::vector<Finding>& findings, bool by_kernel,
            std::vector<Line>& lines) {
  const std::string dtype(name_of(problem.dtype));
  std::set<Line*> seen;
  lines.reserve(lines.size() + findings.size());  // pointers into it stay valid
  for (const Finding& finding : findings) {
    const std::string kernel = by_kernel ? finding.kernel : "";
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Line& one) {
      return one.op == problem.op && one.dtype == dtype && one.plan == finding.plan &&
             one.kernel == kernel;
    });
    if (line == lines.end()) {
      // Counted alone, and rightly, since a later kernel wrote over its values: no line of its own.
      if (!kernel.empty() && finding.tensor.empty() && finding.pass) continue;
      line = lines.insert(line, {problem.op, dtype, finding.plan, kernel, finding, 0, 0, ""});
    }
    if (seen.insert(&*line).second) ++line->problems;
    if (share_of_tolerance(finding) > share_of_tolerance(line->nearest)) line->nearest = finding;
    if (finding.pass) continue;
    if (line->failures++ == 0) {
      line->first_failure =
          fmt::format("{} {} [{}] {} {} {}: {}", problem.op, dtype, fmt::join(problem.shape, ", "),
                      finding.plan, finding.kernel, finding.tensor, finding.detail);
    }
  }
}

std::string render(const std::vector<Line>& lines) {
  Table table({{"op", Align::left},
               {"dtype", Align::left},
               {"plan", Align::left},
               {"kernel", Align::left},
               {"output", Align::left},
               {"shapes"},
               {"worst ulp"},
               {"tolerance"},
               {"verdict", Align::left}});
  std::string failures;
  for (const Line& line : lines) {
    table.add_row({line.op, line.dtype, line.plan, line.nearest.kernel, line.nearest.tensor,
                   std::to_string(line.problems), fixed(line.nearest.worst_ulp, 3),
                   fixed(line.nearest.tolerance_ulp, 3),
                   line.failures == 0 ? "pass" : fmt::format("{} FAIL", line.failures)});
    if (line.failures > 0) failures += "FAIL " + line.first_failure + "\n";
  }
  return table.render() + failures;
}

ordered_json to_json(const std::vector<Line>& lines) {
  ordered_json list = ordered_json::array();
  for (const Line& line : lines) {
    list.push_back({{"op", line.op},
                    {"dtype", line.dtype},
                    {"plan", line.plan},
                    {"kernel", line.nearest.kernel},
                    {"tensor", line.nearest.tensor},
                    {"shapes", line.problems},
                    {"worst_ulp", line.nearest.worst_ulp},
                    {"tolerance_ulp", line.nearest.tolerance_ulp},
                    {"failures", line.failures},
                    {"first_failure", line.first_failure}});
  }
  return list;
}

Outcome run_verify(const Chapter& chapter, const GivenFlags& given) {
  const Device device = chosen_device(given);
  const std::uint64_t seed =
      given.contains("--seed") ? parse_size("--seed", given.at("--seed")) : 1;
  const bool one = given.contains("--op");
  if (!one) refuse_without_op(chapter, given);
  const Files files = load_files(chapter, given);
  std::vector<Problem> problems;
  if (one) {
    problems.push_back(chapter.make_problem(given.at("--op"), given, files));
  } else {
    problems = chapter.verification_problems();
  }

  std::vector<Line> lines;
  std::string end_to_end;
  for (std::size_t p = 0; p < problems.size(); ++p) {
    const Problem& problem = problems[p];
    if (!one) {
      progress(fmt::format("verify {}/{} {} {}", p + 1, problems.size(), problem.op,
                           name_of(problem.dtype)));
    }
    // Every other problem on bases that no vector register is aligned to.
    Tensors tensors(problem.tensors, p % 2);
    fill_inputs(problem, tensors, seed + p);
    for (const TensorSpec& spec : problem.tensors) {
      const auto file = files.find(spec.name);
      if (file != files.end()) take(file->second, spec, tensors.at(spec.name));
    }
    Fast fast(p % 4 < 2 ? Stores::automatic : Stores::streaming);
    std::optional<gpu::DeviceTensors> on_device;
    if (device == Device::cuda) on_device.emplace(problem.tensors, p % 2);
    const Run run = on_device ? run_on_device(problem, *on_device) : run_on_cpu(problem, fast);
    const Twin twin = on_device ? Twin::second_run : Twin::replay;
    if (one) {
      const double ulp = unfused_end_to_end_ulp(problem, tensors, run);
      end_to_end = fmt::format(
          "Unfused, from end to end: {} ulp, since every intermediate is rounded as it is "
          "stored.\n",
          fixed(ulp, 3));
    }
    gather(problem, verify_problem(problem, tensors, run, twin), one, lines);
    if (given.contains("--save")) save(given.at("--save"), problem, tensors);
  }
  progress("");

  const bool pass =
      std::all_of(lines.begin(), lines.end(), [](const Line& line) { return line.failures == 0; });
  Outcome outcome;
  outcome.exit_code = pass && !lines.empty() ? 0 : 1;
  if (given.contains("--json")) {
    outcome.out = ordered_json{{"seed", seed},
                               {"device", name_of(device)},
                               {"pass", pass},
                               {"findings", to_json(lines)}}
                      .dump(2);
    outcome.out += "\n";
  } else {
    const char* const passed =
        device == Device::cuda
            ? "every value within its tolerance, two runs on the GPU equal in every bit"
            : "every value within its tolerance, replay equal to the exact ledger in every byte "
              "and FLOP";
    outcome.out =
        render(lines) + end_to_end +
        fmt::format("{} problems, seed {}: {}\n", problems.size(), seed, pass ? passed : "FAIL");
  }
  return outcome;
}

}  // namespace

Subcommand verify_subcommand(const Chapter& chapter) {
  std::vector<Flag> flags = {{"--op", "OP", "one operator; default: all, on a spread of shapes"}};
  flags.insert(flags.end(), chapter.argument_flags.begin(), chapter.argument_flags.end());
  for (const std::string& name : chapter.input_names) {
    flags.push_back({"--" + name, "FILE", "your own " + name + ", a .npy; default: random"});
  }
  flags.push_back({"--save", "DIR", "write every input and output as <name>.npy"});
  flags.push_back({"--seed", "N", "seed of the random inputs, default 1"});
  flags.push_back(device_flag());
  flags.push_back({"--json", "", "print JSON"});
  return {"verify", "values against the reference, replay against the ledger", flags,
          [chapter](const GivenFlags& given) { return run_verify(chapter, given); }};
}

}  // namespace opbook
