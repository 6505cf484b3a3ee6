#include "ch02_roofline/bench_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "ch02_roofline/ledger_command.hpp"
#include "ch02_roofline/roofs.hpp"
#include "ch02_roofline/sweep.hpp"
#include "common/compare.hpp"
#include "common/cuda/bench_on_device.hpp"
#include "common/error.hpp"
#include "common/files.hpp"
#include "common/show.hpp"

namespace opbook::ch02 {
namespace {

namespace fs = std::filesystem;

/// Of results their machine file: build/results/ch02_machine.json of build/results/ch02.json.
fs::path machine_beside(const fs::path& results) {
  return results.parent_path() / (results.stem().string() + "_machine.json");
}

/// Where the sweep goes, and where the roofs.
struct Paths {
  fs::path results, machine;
};

Paths chosen_paths(const GivenFlags& given, Device device, const MachineInfo& machine) {
  if (given.contains("--record")) {
    const fs::path results = record_path(machine, "ch02");
    return {results, results.parent_path() / "machine.json"};
  }
  const fs::path results =
      given.contains("--out") ? fs::path(given.at("--out")) : default_results_path("ch02", device);
  return {results, machine_beside(results)};
}

/// Rows whose rate no machine can have are errors in the timing, and no results.
void drop_impossible(std::vector<ResultRow>& rows, const MachineInfo& machine, Outcome& outcome) {
  std::erase_if(rows, [&](const ResultRow& row) {
    const std::string impossible = opbook::gpu::impossible_rate(row, machine);
    if (impossible.empty()) return false;
    outcome.exit_code = 1;
    outcome.err += fmt::format("ch02: {}\n", impossible);
    return true;
  });
}

/// What is to be said of roofs that no machine can have; exit code 0 where none is.
Outcome implausible(const std::vector<Roof>& roofs, const MachineInfo& machine) {
  Outcome outcome;
  for (const std::string& line : impossible_roofs(roofs, machine)) {
    outcome.exit_code = 1;
    outcome.err += "ch02: " + line + "\n";
  }
  return outcome;
}

Outcome bench_chapter(const Chapter& chapter, const GivenFlags& given) {
  const Device device = chosen_device(given);
  refuse_without_op(chapter, given);
  for (const char* const flag : {"--plan", "--counters"}) {  // the sweep is one plan, by the clock
    if (!given.contains(flag)) continue;
    throw ArgumentError(fmt::format("{} without --op; allowed: only together with --op", flag));
  }
  if (given.contains("--record") && given.contains("--out")) {
    throw ArgumentError("--record: given with --out; allowed: without it");
  }
  const bool quick = given.contains("--quick"), on_gpu = device == Device::cuda;
  Results results;
  results.machine = on_gpu ? describe_device() : describe_cpu();
  const Paths paths = chosen_paths(given, device, results.machine);

  std::vector<Roof> roofs = on_gpu ? measure_gpu_roofs(results.machine, quick)
                                   : measure_cpu_roofs(results.machine, quick);
  Outcome outcome = implausible(roofs, results.machine);
  if (outcome.exit_code != 0) return outcome;
  results.rows = time_sweep(device, results.machine, quick);
  if (!on_gpu) {
    const std::vector<Roof> again = measure_cpu_roofs_again(results.machine, quick);
    outcome = implausible(again, results.machine);
    if (outcome.exit_code != 0) return outcome;
    roofs.insert(roofs.end(), again.begin(), again.end());
  }
  for (const std::string& line : doubtful_roofs(roofs)) outcome.err += "ch02: " + line + "\n";
  write_machine(paths.machine, results.machine, on_gpu ? gpu_on_chip() : cpu_on_chip(), roofs);
  const Machine machine = load_machine(paths.machine.string());

  drop_impossible(results.rows, results.machine, outcome);
  write_results(paths.results, results);
  if (given.contains("--record") && results.machine.commit.ends_with("-dirty")) {
    outcome.err += fmt::format(
        "ch02: recorded from files that differ from their commit ({}), so that nobody else can "
        "repeat it\n",
        results.machine.commit);
  }
  if (given.contains("--json")) {
    outcome.out = read_file(paths.results);
  } else {
    outcome.out =
        render_roofs(roofs) + render_results(results) + "\n" +
        render_bends(find_bends(results.rows, machine), machine) +
        fmt::format("\nWritten to {} and {}\n", paths.results.string(), paths.machine.string());
  }
  return outcome;
}

/// The machine file that was written with results: beside them, or recorded as machine.json. Empty
/// where there is none.
std::optional<fs::path> machine_of(const fs::path& results) {
  for (const fs::path& file : {machine_beside(results), results.parent_path() / "machine.json"}) {
    if (fs::exists(file)) return file;
  }
  return std::nullopt;
}

/// Where the sweep in a file of results bends. Throws ArgumentError where that is another machine's
/// or has no sweep.
std::string bends_of(const std::string& file, const Machine& machine) {
  const Results results = read_results(file);
  if (results.machine.name != machine.name) {
    throw ArgumentError(fmt::format("--results: got {}, of \"{}\"; allowed: of \"{}\"", file,
                                    results.machine.name, machine.name));
  }
  const auto of_chain = [](const ResultRow& row) { return row.op.starts_with(op_names[0]); };
  if (!results.rows.empty() && std::none_of(results.rows.begin(), results.rows.end(), of_chain)) {
    throw ArgumentError(
        fmt::format("--results: got {}, which has no {}; allowed: a sweep that bench ch02 wrote",
                    file, op_names[0]));
  }
  return render_bends(find_bends(results.rows, machine), machine);
}

Outcome run_roofs(const GivenFlags& given) {
  const fs::path latest = latest_results_path("ch02");
  const std::string path = value_or(given, "--machine", machine_beside(latest).string());
  const Machine machine = load_machine(path);
  const auto known = known_machines();
  const auto found = known.find(path);
  std::string text =
      machine.name + "\n\n" +
      render_roofs(read_roofs(found == known.end() ? fs::path(path) : found->second));
  if (given.contains("--results")) {
    text += bends_of(given.at("--results"), machine);
  } else if (!given.contains("--machine") && fs::exists(latest)) {
    text += bends_of(latest.string(), machine);
  }
  return {0, text, ""};
}

}  // namespace

Subcommand bench_subcommand(const Chapter& chapter) {
  Subcommand bench = opbook::bench_subcommand(chapter);
  bench.about = "the machine's roofs and the chain's sweep of k, or one chain, against the clock";
  bench.flags.front().help = "one chain; default: the machine's roofs, then the sweep of k";
  const auto one_chain = bench.run;
  bench.run = [chapter, one_chain](const GivenFlags& given) {
    return given.contains("--op") ? one_chain(given) : bench_chapter(chapter, given);
  };
  return bench;
}

Subcommand with_bends(Subcommand show) {
  show.run = [show_results = show.run](const GivenFlags& given) {
    Outcome outcome = show_results(given);
    if (given.contains("--peers")) return outcome;
    const std::string file = value_or(given, "--results", latest_results_path("ch02").string());
    if (const std::optional<fs::path> machine = machine_of(file)) {
      outcome.out += "\n" + bends_of(file, load_machine(machine->string()));
    }
    return outcome;
  };
  return show;
}

Subcommand roofs_subcommand() {
  return {
      "roofs",
      "a machine's measured roofs as tables, and where the sweep bends",
      {{"--machine", "NAME|FILE", "default: what bench wrote last"},
       {"--results", "FILE", "the sweep on that machine; default: with the latest roofs, theirs"}},
      run_roofs};
}

}  // namespace opbook::ch02
