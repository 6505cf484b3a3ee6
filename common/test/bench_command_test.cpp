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

TEST_CASE("a record without them is taken", "[bench]") {
  CHECK_THAT(bench({"--record", "--device", "cpu"}).err, StartsWith("ch99: asked for problems"));
}

}  // namespace opbook
