#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/chapter.hpp"

namespace opbook {
namespace {

using Catch::Matchers::StartsWith;

/// `bench` of a chapter in which nothing may be asked for: arguments are refused before.
Outcome bench(std::vector<std::string> arguments) {
  Chapter chapter;
  chapter.name = "ch99";
  chapter.make_problem = [](const std::string&, const GivenFlags&, const Files&) -> Problem {
    throw std::logic_error("asked for a problem");
  };
  chapter.benchmark_problems = [](std::int64_t) -> std::vector<Problem> {
    throw std::logic_error("asked for problems");
  };
  const Subcommand subcommands[] = {bench_subcommand(chapter)};
  arguments.insert(arguments.begin(), "bench");
  return run_subcommand("ch99", "", subcommands, arguments);
}

}  // namespace

TEST_CASE("a record is refused for one operator, and for another place", "[bench]") {
  const std::string flag = GENERATE(as<std::string>(), "--op", "--out");
  const Outcome outcome = bench({"--record", flag, "something"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(outcome.err == "ch99: --record: given with " + flag + "; allowed: without it\n");
}

TEST_CASE("counters are refused on the CPU", "[bench]") {
  const Outcome outcome = bench({"--device", "cpu", "--counters"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(outcome.err ==
        "ch99: --counters: given on the CPU; allowed: with --device cuda, since counters are a "
        "GPU's\n");
}

TEST_CASE("once takes a cell's flags or an operator", "[bench]") {
  const std::vector<std::string> flag =
      GENERATE(values<std::vector<std::string>>({{"--quick"}, {"--cell", "1"}}));
  const Subcommand subcommands[] = {once_subcommand(Chapter{})};
  std::vector<std::string> arguments = {"once", "--op", "rope"};
  arguments.insert(arguments.end(), flag.begin(), flag.end());
  const Outcome outcome = run_subcommand("ch99", "", subcommands, arguments);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err == "ch99: " + flag[0] + ": given with --op; allowed: without it\n");
}

TEST_CASE("a record without them is taken", "[bench]") {
  CHECK_THAT(bench({"--record", "--device", "cpu"}).err, StartsWith("ch99: asked for problems"));
}

}  // namespace opbook
