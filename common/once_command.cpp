#include "common/once_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "common/cuda/bench_on_device.hpp"
#include "common/cuda/device_tensors.hpp"
#include "common/cuda/profiler.hpp"
#include "common/error.hpp"

namespace opbook {
namespace {

Problem cell_of_grid(const Chapter& chapter, const GivenFlags& given) {
  std::vector<Problem> grid = chapter.device_benchmark_problems(given.contains("--quick"));
  const std::int64_t cell = parse_size("--cell", value_or(given, "--cell", "1"));
  if (cell > static_cast<std::int64_t>(grid.size())) {
    throw ArgumentError(fmt::format("--cell: got {}; allowed: 1 to {}", cell, grid.size()));
  }
  return std::move(grid[cell - 1]);
}

Problem chosen_problem(const Chapter& chapter, const GivenFlags& given) {
  if (!given.contains("--op")) {
    refuse_without_op(chapter, given);
    return cell_of_grid(chapter, given);
  }
  return chapter.make_problem(given.at("--op"), given, {});
}

Outcome run_once(const Chapter& chapter, const GivenFlags& given) {
  for (const char* const flag : {"--cell", "--quick"}) {  // of the grid alone
    if (!given.contains(flag) || !given.contains("--op")) continue;
    throw ArgumentError(fmt::format("{}: given with --op; allowed: without it", flag));
  }
  constexpr std::string_view plans[] = {"unfused", "fused"};
  const PlanKind plan =
      both_plans[parse_choice("--plan", value_or(given, "--plan", "fused"), plans)];
  GivenFlags on_gpu = given;
  on_gpu.try_emplace("--device", "cuda");
  if (chosen_device(on_gpu) != Device::cuda) {
    throw ArgumentError("--device: got \"cpu\"; allowed: cuda, since it is a GPU that is profiled");
  }
  const Problem problem = chosen_problem(chapter, given);
  if (!problem.run_on_gpu) throw DeviceUnavailable(problem.op + ": has no kernels for a GPU");
  gpu::DeviceTensors device(problem.tensors);
  gpu::fill_repeating(problem, device);
  gpu::profiler_start();
  problem.run_on_gpu(nullptr, plan, device);
  gpu::synchronise();
  gpu::profiler_stop();
  Outcome outcome;
  outcome.out = fmt::format("{} {} [{}]: ran the {} plan once\n", problem.op,
                            name_of(problem.dtype), fmt::join(problem.shape, ", "), name_of(plan));
  return outcome;
}

}  // namespace

std::vector<std::string> once_command(const Chapter& chapter, const GivenFlags& bench_flags,
                                      std::size_t cell, PlanKind plan) {
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                      "once", "--device=cuda",
                                      fmt::format("--plan={}", name_of(plan))};
  if (!bench_flags.contains("--op")) {
    command.push_back(fmt::format("--cell={}", cell + 1));
    if (bench_flags.contains("--quick")) command.push_back("--quick");
    return command;
  }
  command.push_back("--op=" + bench_flags.at("--op"));
  for (const Flag& flag : chapter.argument_flags) {
    const auto found = bench_flags.find(flag.name);
    if (found == bench_flags.end()) continue;
    command.push_back(flag.value_name.empty() ? flag.name : flag.name + "=" + found->second);
  }
  return command;
}

Subcommand once_subcommand(const Chapter& chapter) {
  std::vector<Flag> flags = {{"--op", "OP", "one operator; default: a cell of bench's grid"}};
  flags.insert(flags.end(), chapter.argument_flags.begin(), chapter.argument_flags.end());
  flags.push_back({"--cell", "N", "the Nth cell that bench times on a GPU, default 1"});
  flags.push_back({"--quick", "", "of the cells of bench --quick"});
  flags.push_back({"--plan", "PLAN", "unfused or fused (default)"});
  flags.push_back(device_flag());
  return {"once", "one plan run once on the GPU, for a profiler to look at", flags,
          [chapter](const GivenFlags& given) { return run_once(chapter, given); }};
}

}  // namespace opbook
