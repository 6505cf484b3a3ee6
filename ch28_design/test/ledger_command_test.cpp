#include "ch28_design/ledger_command.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

#include "ch28_design/test/golden.hpp"

namespace opbook::ch28 {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using nlohmann::ordered_json;

Outcome ledger(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ledger");
  const Subcommand subcommands[] = {ledger_subcommand()};
  return run_subcommand("ch28", "Chapter 28", subcommands, arguments);
}

std::string printed(const std::vector<std::string>& arguments, int exit_code = 0) {
  const Outcome outcome = ledger(arguments);
  CHECK(outcome.exit_code == exit_code);
  CHECK(outcome.err.empty());
  return outcome.out;
}

ordered_json parsed(std::vector<std::string> arguments, int exit_code = 0) {
  arguments.emplace_back("--json");
  return ordered_json::parse(printed(arguments, exit_code));
}

/// Refused: exit code 2, nothing on stdout, one line on stderr that begins as said.
void check_refused(const std::vector<std::string>& arguments, const std::string& beginning) {
  for (const bool json : {false, true}) {
    std::vector<std::string> all = arguments;
    if (json) all.insert(all.begin(), "--json");
    const Outcome outcome = ledger(all);
    INFO(beginning);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, StartsWith("ch28: " + beginning) && ContainsSubstring("; allowed: "));
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  }
}

std::vector<std::string> command_line(const ordered_json& args, const std::string& convention) {
  std::vector<std::string> line = {"--convention", convention};
  for (const auto& [name, value] : args.items()) {
    std::string flag = "--" + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    line.push_back(flag);
    line.push_back(value.dump());
  }
  return line;
}

bool all_fit(const ordered_json& recorded) {
  const ordered_json& designs = recorded.at("designs");
  return std::all_of(designs.begin(), designs.end(),
                     [](const ordered_json& design) { return design.value("fits", true); });
}

/// args, ledger and designs as recorded, and D beside the designs with the same fields.
void check_recorded(ordered_json actual, const ordered_json& recorded) {
  const ordered_json ours = actual.at("D");
  CHECK(ours.at("design") == "D");
  const ordered_json& design = recorded.at("designs").front();
  REQUIRE(ours.size() == design.size());
  actual.erase("D");
  actual.erase("model");
  check_same(actual, recorded);
}

}  // namespace

TEST_CASE("every recorded table of the book is reproduced, to the last bit", "[ledger_command]") {
  const ordered_json book = golden("ch28_designs.json");
  CHECK(book.at("cases").size() == 6);
  for (const ordered_json& recorded : book.at("cases")) {
    INFO(recorded.at("args"));
    const std::vector<std::string> line = command_line(recorded.at("args"), "book");
    check_recorded(parsed(line, all_fit(recorded) ? 0 : 1), recorded);
  }
  check_recorded(parsed({}), book.at("cases").front());  // the defaults
}

TEST_CASE("every recorded table of the exact convention is reproduced", "[ledger_command]") {
  const ordered_json exact = golden("ch28_exact.json");
  CHECK(exact.at("cases").size() == 5);
  for (const ordered_json& recorded : exact.at("cases")) {
    INFO(recorded.at("args"));
    check_recorded(parsed(command_line(recorded.at("args"), "exact")), recorded);
  }
  check_recorded(parsed({"--convention", "exact"}), exact.at("cases").front());
}

TEST_CASE("the book's default table is printed in four parts", "[ledger_command]") {
  const std::string text = printed({});
  std::size_t at = 0;
  for (const char* part : {"\n0. The operator", "\n1. The budget", "\n2. Diagnosis",
                           "\n3. What a profiler would show"}) {
    const std::size_t next = text.find(part);
    REQUIRE(next != std::string::npos);
    CHECK(next > at);
    at = next;
  }
  for (const char* figure : {"67.76", "63.57", "3.102", "15.051", "210.21", "163,840", "315.23",
                             "4.65x", "95.03", "1.40x", "69.86", "1.03x", "79.8 %", "70.013"}) {
    CHECK_THAT(text, ContainsSubstring(figure));
  }
  CHECK_THAT(text, ContainsSubstring("re-read for every head, 40 times a token"));
  CHECK_THAT(text, ContainsSubstring("re-read at each block of a token, 5.000 table reads"));
  CHECK_THAT(text, ContainsSubstring("Nothing to fix in traffic"));
  CHECK_THAT(text, ContainsSubstring("Least traffic among those that fit: C, 69.86 MB."));
}

TEST_CASE("the judgement follows the balance point", "[ledger_command]") {
  CHECK_THAT(printed({}), ContainsSubstring("Memory-bound: AI 3.102 lies left of the balance "
                                            "point, 14.881 FLOP/byte"));
  CHECK_THAT(printed({"--bandwidth-gbs", "67000"}),
             ContainsSubstring("Compute-bound: AI 3.102 lies "
                               "right of the balance point, "
                               "1.000 FLOP/byte"));
}

TEST_CASE("the diagnosis follows the figures, not the letters", "[ledger_command]") {
  CHECK_THAT(printed({"--rows-per-block", "64"}),
             ContainsSubstring("Least traffic among those that fit: B, 69.07 MB."));
  // One head a token: A reads each table row once, and what it reads again is the weights.
  CHECK_THAT(printed({"--q-heads", "1", "--kv-heads", "0"}),
             ContainsSubstring("To fix: the weights are read in every one of 4,096 blocks."));
  CHECK_THAT(printed({"--tokens", "1", "--on-chip-kb", "1"}, 1),
             ContainsSubstring("A block does not fit: fewer rows a block.") &&
                 ContainsSubstring("No design fits."));
}

TEST_CASE("a design over its budget is a FAIL and exit code 1, with all of the output",
          "[ledger_command]") {
  const std::vector<std::string> large = {"--q-heads", "128", "--kv-heads", "128"};
  CHECK_THAT(printed(large, 1),
             ContainsSubstring("\nFAIL C: 226.0 KB on chip, over the budget of 192 KB.\n") &&
                 ContainsSubstring("3. What a profiler would show"));
  std::vector<std::string> exact = large;
  exact.insert(exact.end(), {"--convention", "exact"});
  CHECK_THAT(printed(exact, 1), ContainsSubstring("\nFAIL C: "));
  CHECK(parsed(exact, 1).at("model").at("designs")[2].at("fits") == false);
  // Ours stands beside the book's designs: it is reported, but the verdict is on A, B and C.
  // (Of 80 columns, which no lanes hold, it takes eight rows a block, whatever the heads.)
  CHECK_THAT(printed({"--q-heads", "2", "--kv-heads", "1", "--head-dim", "80", "--rows-per-block",
                      "2", "--on-chip-kb", "4"},
                     0),
             ContainsSubstring("FAIL D"));
  std::vector<std::string> roomy = large;
  roomy.insert(roomy.end(), {"--on-chip-kb", "226"});
  CHECK_THAT(printed(roomy), !ContainsSubstring("FAIL"));
}

TEST_CASE("a machine brings bandwidth, SMs and budget, and flags override it", "[ledger_command]") {
  const ordered_json h200 = parsed({"--machine", "h200"}).at("args");
  CHECK(h200.at("bandwidth_gbs") == 4800);
  CHECK(h200.at("sm_count") == 132);
  CHECK(h200.at("on_chip_kb") == 227);
  const ordered_json mixed = parsed({"--machine", "h200", "--bandwidth-gbs", "3350", "--sm-count",
                                     "80", "--on-chip-kb", "99.5"})
                                 .at("args");
  CHECK(mixed.at("bandwidth_gbs") == 3350);
  CHECK(mixed.at("sm_count") == 80);
  CHECK(mixed.at("on_chip_kb") == 99.5);
  CHECK_THAT(printed({"--machine", "h200"}), ContainsSubstring("on one NVIDIA H200 SXM"));
  // 228 KB an SM, 1 KB of it reserved for each block: C fits six times.
  const ordered_json model = parsed({"--machine", "h200", "--convention", "exact"}).at("model");
  CHECK(model.at("designs")[2].at("resident_blocks_per_sm") == 6);
  CHECK(model.at("designs")[2].at("waves") == 6);
}

TEST_CASE("rope_dim is an argument of the exact convention", "[ledger_command]") {
  const ordered_json half = parsed({"--convention", "exact", "--rope-dim", "64"});
  CHECK(half.at("args").at("rope_dim") == 64);
  CHECK(half.at("ledger").at("ideal_lookup_bytes") == 2 * 256 + 4096 * 4 * 64);
  CHECK(parsed({"--convention", "exact", "--rope-dim", "128"}).at("ledger") ==
        parsed({"--convention", "exact"}).at("ledger"));
}

TEST_CASE("what makes no sense is refused on one line that names flag and value",
          "[ledger_command]") {
  for (const char* flag : {"--tokens", "--head-dim", "--sm-count", "--rows-per-block"}) {
    for (const char* value : {"0", "-1", "-4096", "1.5", "nan", "inf", "", "x", "+8", " 8",
                              "9223372036854775808", "1e3"}) {
      check_refused({std::string(flag) + "=" + value},
                    std::string(flag) + ": got \"" + value + "\"; allowed: ");
    }
    check_refused({flag, "-8"}, std::string(flag) + ": got \"-8\"; allowed: ");
  }
  for (const char* flag : {"--q-heads", "--kv-heads"}) {
    for (const char* value : {"-1", "nan", "0.5", "", "-0"}) {
      check_refused({std::string(flag) + "=" + value},
                    std::string(flag) + ": got \"" + value + "\"; allowed: ");
    }
  }
  for (const char* flag : {"--bandwidth-gbs", "--on-chip-kb"}) {
    for (const char* value : {"0", "-1", "-4502.4", "nan", "NaN", "-nan", "inf", "-inf", "infinity",
                              "1e400", "", "x", "4502.4x", "+1"}) {
      check_refused({std::string(flag) + "=" + value},
                    std::string(flag) + ": got \"" + value + "\"; allowed: ");
    }
    check_refused({flag, "-4502.4"}, std::string(flag) + ": got \"-4502.4\"; allowed: ");
  }
  check_refused({"--q-heads", "0", "--kv-heads", "0"},
                "--q-heads, --kv-heads: got 0 and 0; allowed: ");
  check_refused({"--head-dim", "127"}, "--head-dim: got 127; allowed: an even number");
  check_refused({"--head-dim", "1"}, "--head-dim: got 1; allowed: an even number");
  check_refused({"--bandwidth-gbs", "1e-310"}, "--bandwidth-gbs: got ");
  check_refused({"--bandwidth-gbs", "1e305"}, "--bandwidth-gbs: got ");
  for (const char* value : {"0", "-2", "nan"}) {
    check_refused({"--convention", "exact", "--rope-dim", value},
                  std::string("--rope-dim: got \"") + value + "\"; allowed: ");
  }
  check_refused({"--convention", "exact", "--rope-dim", "63"}, "--rope-dim: got 63; allowed: ");
  check_refused({"--convention", "exact", "--rope-dim", "130"}, "--rope-dim: got 130; allowed: ");
  check_refused({"--rope-dim", "64"}, "--rope-dim: got 64; allowed: none under the book's");
  check_refused({"--convention", "both"}, "--convention: got \"both\"; allowed: book, exact");
  check_refused({"--machine", "abacus"}, "--machine: got \"abacus\"; allowed: ");
  check_refused({"--machine", "/nowhere.json"}, "--machine: /nowhere.json");
}

TEST_CASE("sizes whose figures pass 64 bits are refused, all of them named", "[ledger_command]") {
  for (const char* flag : {"--tokens", "--q-heads", "--rows-per-block", "--sm-count"}) {
    for (const char* convention : {"book", "exact"}) {
      check_refused({"--convention", convention, flag, "9223372036854775807"}, "--tokens ");
    }
  }
  check_refused({"--head-dim", "9223372036854775806"}, "--tokens ");
  check_refused({"--tokens", "3037000500", "--q-heads", "3037000500"}, "--tokens 3037000500, ");
}

TEST_CASE("one head count alone may be zero", "[ledger_command]") {
  for (const char* flag : {"--q-heads", "--kv-heads"}) {
    for (const char* convention : {"book", "exact"}) {
      const ordered_json json = parsed({flag, "0", "--convention", convention});
      CHECK(json.at("designs").size() == 3);
      CHECK(json.at("ledger").at("rows") == 4096 * (std::string(flag) == "--q-heads" ? 8 : 32));
    }
  }
}

}  // namespace opbook::ch28
