#include "ch02_roofline/bench_command.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "ch02_roofline/chapter.hpp"
#include "ch02_roofline/roof.hpp"
#include "common/results.hpp"
#include "common/test/temporary_folder.hpp"

using namespace opbook;
using namespace opbook::ch02;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

Outcome run(const std::vector<std::string>& arguments) {
  const Subcommand subcommands[] = {ch02::bench_subcommand(chapter()), roofs_subcommand()};
  return run_subcommand("ch02", "Chapter 2", subcommands, arguments);
}

void check_refused(const std::vector<std::string>& arguments, const std::string& beginning) {
  const Outcome outcome = run(arguments);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, StartsWith("ch02: " + beginning) && ContainsSubstring("; allowed: "));
  CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
}

Roof measured(const char* name, const char* unit, double median, std::int64_t working_set = 0) {
  Roof roof{name, unit, "all cores", "somehow"};
  roof.working_set_bytes = working_set;
  roof.median = roof.p25 = roof.p75 = median;
  roof.n = 11;
  return roof;
}

}  // namespace

TEST_CASE("bench refuses what does not go together, before it measures", "[bench_command]") {
  check_refused({"bench", "--device", "cpu", "--k", "5"}, "--k without --op");
  check_refused({"bench", "--device", "cpu", "--record", "--out", "x.json"},
                "--record: given with --out");
  check_refused({"bench", "--device", "cpu", "--counters"}, "--counters without --op");
  check_refused({"bench", "--device", "cpu", "--plan", "steps"}, "--plan without --op");
  check_refused({"bench", "--device", "cpu", "--op", "multiply_add_chain", "--counters"},
                "--counters: given on the CPU");
  check_refused({"bench", "--device", "tpu"}, "--device: got \"tpu\"");
  check_refused({"bench", "--device", "cpu", "--op", "softmax"}, "--op: got \"softmax\"");
  check_refused({"bench", "--device", "cpu", "--op", "multiply_add_chain", "--k", "0"},
                "--k: got \"0\"");
  check_refused(
      {"bench", "--device", "cpu", "--op", "multiply_add_chain", "--n", "1000000000000000"},
      "--n: got 1000000000000000, which needs ");
}

TEST_CASE("roofs shows a machine file, and the bends of results on it", "[bench_command]") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "machine.json";
  MachineInfo info;
  info.name = "A processor";
  info.device = "cpu";
  info.cores = 2;
  info.memory_bytes = 1 << 30;
  write_machine(
      path, info, {32768, 524288, ""},
      std::vector<Roof>{measured("copy", "GB/s", 100, 1 << 27), measured("fp32", "TFLOP/s", 1)});
  const Outcome alone = run({"roofs", "--machine", path.string()});
  CHECK(alone.exit_code == 0);
  CHECK_THAT(alone.out, StartsWith("A processor\n\nBandwidth by working set, all cores, GB/s\n") &&
                            ContainsSubstring("fp32  all cores  somehow    1.000"));

  Results results;
  results.machine = info;
  const auto results_path = folder.path() / "ch02.json";
  write_results(results_path, results);
  const Outcome both =
      run({"roofs", "--machine", path.string(), "--results", results_path.string()});
  CHECK(both.exit_code == 0);
  CHECK_THAT(both.out, ContainsSubstring("No dtype has rows on both sides of its bend."));

  // So does show, of a record: its machine file is machine.json.
  const auto shown = [&] {
    return with_bends(show_subcommand(chapter())).run({{"--results", results_path.string()}}).out;
  };
  CHECK_THAT(shown(), ContainsSubstring("No dtype has rows on both sides of its bend."));
  std::filesystem::remove(path);
  CHECK_THAT(shown(), !ContainsSubstring("bend"));
  write_machine(
      path, info, {32768, 524288, ""},
      std::vector<Roof>{measured("copy", "GB/s", 100, 1 << 27), measured("fp32", "TFLOP/s", 1)});

  results.machine.name = "Another";
  write_results(results_path, results);
  const Outcome mixed =
      run({"roofs", "--machine", path.string(), "--results", results_path.string()});
  CHECK(mixed.exit_code == 2);
  CHECK_THAT(mixed.err, ContainsSubstring("of \"Another\"; allowed: of \"A processor\""));
}

TEST_CASE("roofs refuses a file that has none, by its name", "[bench_command]") {
  const TemporaryFolder folder;
  CHECK(run({"roofs", "--machine", (folder.path() / "none.json").string()}).exit_code == 2);
  const Outcome sheet = run({"roofs", "--machine", "h200"});
  CHECK(sheet.exit_code == 2);
  CHECK_THAT(sheet.err, ContainsSubstring("h200.json: roofs: missing"));
}
