#include "ch02_roofline/chapter.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

#include "common/error.hpp"

using namespace opbook;
using namespace opbook::ch02;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

namespace {

Files one_file(std::vector<std::int64_t> shape) {
  Files files;
  files.emplace("x", Array("x", Dtype::bfloat16, std::move(shape)));
  return files;
}

Problem made_of(const GivenFlags& given, const Files& files = {}) {
  GivenFlags on_cpu = given;
  on_cpu.emplace("--device", "cpu");
  return chapter().make_problem("multiply_add_chain", on_cpu, files);
}

Outcome run(std::vector<std::string> arguments) {
  const Chapter ch02 = chapter();
  const Subcommand subcommands[] = {verify_subcommand(ch02), cache_subcommand(ch02)};
  return run_subcommand("ch02", "Chapter 2", subcommands, arguments);
}

}  // namespace

TEST_CASE("x may bring its length and its dtype in a file", "[chapter]") {
  const Problem problem = made_of({}, one_file({130}));
  CHECK(problem.shape == std::vector<std::int64_t>{130});
  CHECK(problem.dtype == Dtype::bfloat16);
  CHECK_NOTHROW(made_of({{"--n", "130"}}, one_file({130})));
  CHECK_THROWS_WITH(made_of({{"--n", "128"}}, one_file({130})),
                    Equals("--n: got 128; allowed: 130, as the files have it"));
  CHECK_THROWS_WITH(made_of({}, one_file({2, 65})), Equals("--x: got rank 2; allowed: rank 1"));
  CHECK_THROWS_WITH(made_of({}, one_file({0})), StartsWith("--n: got 0 from the files"));
}

TEST_CASE("a chain beyond memory is refused before anything is allocated", "[chapter]") {
  for (const std::string subcommand : {"verify", "cache"}) {
    const Outcome outcome =
        run({subcommand, "--op", "multiply_add_chain", "--n", "1000000000000000"});
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, StartsWith("ch02: --n: got 1000000000000000, which needs ") &&
                                ContainsSubstring("; allowed: what fits the "));
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  }
  // x and y of 12 bytes an element with y's copy, 16 of the reference: 28 of float32.
  CHECK_NOTHROW(require_memory({.n = 1000}, 28000, "a test"));
  CHECK_THROWS_WITH(require_memory({.n = 1000}, 27999, "a test"),
                    StartsWith("--n: got 1000, which needs 0.0 GB"));
}

TEST_CASE("what is no chain is refused by verify as by the ledger", "[chapter]") {
  for (const auto& [flag, text] : {std::pair("--k", "0"),
                                   {"--k", "65537"},
                                   {"--n", "0"},
                                   {"--a", "much"},
                                   {"--a", "inf"},
                                   {"--b", "nan"},
                                   {"--b", ""}}) {
    const Outcome outcome = run({"verify", "--op", "multiply_add_chain", flag, text});
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, StartsWith(std::string("ch02: ") + flag + ": got \"" + text + "\""));
  }
}

TEST_CASE("verify holds one chain against the reference", "[chapter]") {
  const Outcome outcome = run({"verify", "--op", "multiply_add_chain", "--n", "1000", "--k", "9",
                               "--device", "cpu", "--dtype", "float16"});
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("step_9") && ContainsSubstring("pass"));
}

TEST_CASE("a chapter's problems are of every dtype", "[chapter]") {
  const Chapter ch02 = chapter();
  CHECK(ch02.benchmark_problems(1 << 20).size() == 3);
  for (const Problem& problem : ch02.benchmark_problems(1 << 20)) {
    CHECK(problem.ledger.fused.moved_bytes() == 1 << 20);
  }
  CHECK(ch02.device_benchmark_problems(false).size() > ch02.device_benchmark_problems(true).size());
}
