#include "ch13_norm_rope/ledger_command.hpp"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/machine.hpp"

namespace opbook::ch13 {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using nlohmann::ordered_json;

Outcome ledger(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ledger");
  const Subcommand subcommands[] = {ledger_subcommand()};
  return run_subcommand("ch13", "Chapter 13", subcommands, arguments);
}

std::string printed(const std::vector<std::string>& arguments) {
  const Outcome outcome = ledger(arguments);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  return outcome.out;
}

ordered_json parsed(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  return ordered_json::parse(printed(arguments));
}

/// Refused: exit code 2, nothing on stdout, one line on stderr that begins as said.
void check_refused(const std::vector<std::string>& arguments, const std::string& beginning) {
  for (const bool json : {false, true}) {
    std::vector<std::string> all = arguments;
    if (json) all.insert(all.begin(), "--json");
    const Outcome outcome = ledger(all);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, StartsWith("ch13: " + beginning) && ContainsSubstring("; allowed: "));
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  }
}

/// A file that goes when this does.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    close(mkstemps(path_.data(), 5));
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = std::filesystem::temp_directory_path() / "opbook_XXXXXX.json";
};

ordered_json golden(const std::string& name) {
  std::ifstream file(std::string(OPBOOK_TEST_DIR) + "/golden/" + name);
  return ordered_json::parse(file);
}

/// The command line that asks for a recorded case.
std::vector<std::string> command_line(const ordered_json& recorded, const std::string& convention) {
  std::vector<std::string> line = {"--op", recorded.at("op"), "--convention", convention};
  for (const auto& [name, value] : recorded.at("args").items()) {
    std::string flag = "--" + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    line.push_back(flag);
    if (!value.is_boolean()) {
      line.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
  return line;
}

/// `actual` has all that `recorded` has; numbers compare as numbers.
void check_holds(const ordered_json& actual, const ordered_json& recorded) {
  if (recorded.is_object()) {
    for (const auto& [name, value] : recorded.items()) {
      INFO(name);
      REQUIRE(actual.contains(name));
      check_holds(actual.at(name), value);
    }
  } else if (recorded.is_array()) {
    REQUIRE(actual.size() == recorded.size());
    for (std::size_t i = 0; i < recorded.size(); ++i) check_holds(actual[i], recorded[i]);
  } else {
    CHECK(actual == recorded);
  }
}

void check_recorded(const ordered_json& actual, const ordered_json& recorded) {
  CHECK(actual.at("args").dump() == recorded.at("args").dump());  // the same keys in the same order
  check_holds(actual, recorded);
}

}  // namespace

TEST_CASE("--op prints every recorded case of the book's convention", "[ledger_command]") {
  const ordered_json book = golden("ch13_ledger.json");
  for (const char* list : {"book_defaults", "more"}) {
    for (const ordered_json& recorded : book.at(list)) {
      INFO(recorded.at("op") << " " << recorded.at("args"));
      check_recorded(parsed(command_line(recorded, "book")), recorded);
    }
  }
}

TEST_CASE("--op prints every recorded case of the exact convention", "[ledger_command]") {
  const ordered_json cases = golden("ch13_exact.json").at("cases");
  REQUIRE(!cases.empty());
  for (const ordered_json& recorded : cases) {
    INFO(recorded.at("op") << " " << recorded.at("args"));
    check_recorded(parsed(command_line(recorded, "exact")), recorded);
  }
}

TEST_CASE("flags left out take the book's defaults", "[ledger_command]") {
  const ordered_json cases = golden("ch13_ledger.json").at("book_defaults");
  REQUIRE(!cases.empty());
  for (const ordered_json& recorded : cases) {
    check_recorded(parsed({"--op", recorded.at("op")}), recorded);
  }
}

TEST_CASE("without --op the book's five cases come in its order", "[ledger_command]") {
  const ordered_json recorded = golden("ch13_ledger.json").at("book_defaults");
  const ordered_json book = parsed({});
  REQUIRE(book.size() == 1);
  REQUIRE(book.at("cases").size() == 5);
  const ordered_json exact = parsed({"--convention", "exact"});
  REQUIRE(exact.at("cases").size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    const std::string op = recorded[i].at("op");
    check_recorded(book.at("cases")[i], recorded[i]);
    CHECK(exact.at("cases")[i] == parsed({"--op", op, "--convention", "exact"}));
  }
}

TEST_CASE("the name asked for is the name that comes back", "[ledger_command]") {
  for (const std::string convention : {"book", "exact"}) {
    ordered_json alias = parsed({"--op", "norm_rope_quant", "--convention", convention});
    ordered_json name = parsed({"--op", "rms_norm_rope_quant", "--convention", convention});
    CHECK(alias.at("op") == "norm_rope_quant");
    CHECK(name.at("op") == "rms_norm_rope_quant");
    alias.erase("op");
    name.erase("op");
    CHECK(alias == name);
  }
}

TEST_CASE("options of ours show among the arguments when they are given", "[ledger_command]") {
  const auto args = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"--op", "rms_norm_rope_quant", "--m", "2", "--n", "8", "--rope-dim",
                               "4", "--convention", "exact"});
    return parsed(more).at("args").dump();
  };
  const std::string always = R"({"m":2,"n":8,"rope_dim":4,"dtype":"bfloat16")";
  CHECK(args({}) == always + "}");
  CHECK(args({"--out-dtype", "float16"}) == always + R"(,"out_dtype":"float16"})");
  CHECK(args({"--out-dtype", "float8_e4m3fn"}) == always + R"(,"out_dtype":"float8_e4m3fn"})");
  CHECK(args({"--with-y", "--group-size", "4"}) == always + R"(,"group_size":4,"with_y":true})");
}

TEST_CASE("the printed table is the book's", "[ledger_command]") {
  CHECK(printed({}) == R"(Chapter 13, the ledger, book convention

case             plan     kernels      MB   MFLOP     AI  bytes ratio
---------------  -------  -------  ------  ------  -----  -----------
scale_add        unfused        2   20.97    2.10  0.100
                 fused          1   12.58    2.10  0.167         1.67
rms_norm         unfused        6  234.99   67.12  0.286
                 fused          1   67.12   67.12  1.000         3.50
layer_norm       unfused        6  335.59  117.44  0.350
                 fused          1   67.13  100.67  1.500         5.00
rope             unfused        4  369.10   50.33  0.136
                 fused          1  100.66   50.33  0.500         3.67
norm_rope_quant  unfused        3  185.62  119.03  0.641
                 fused          1   51.40  119.03  2.315         3.61

AI of the 10 plans: 0.100 to 2.315 FLOP/byte. Each is memory-bound on a machine whose
balance point lies above 2.315 FLOP/byte.
5 of 5 fused plans move less than their unfused plan.
)");
}

TEST_CASE("the range of AI is computed from the cases shown", "[ledger_command]") {
  CHECK_THAT(printed({"--convention", "exact"}),
             ContainsSubstring("exact convention") &&
                 ContainsSubstring("AI of the 10 plans: 0.100 to 2.316 FLOP/byte"));
}

TEST_CASE("one case is printed with its kernels", "[ledger_command]") {
  CHECK(
      printed({"--op", "rms_norm_rope_quant", "--convention", "exact", "--group-size", "128",
               "--with-y"}) ==
      R"(rms_norm_rope_quant: m 4096, n 4096, rope_dim 128, dtype bfloat16, group_size 128, with_y true; exact convention

plan     kernel  reads           writes     bytes read  bytes written         FLOP
-------  ------  --------------  ---------  ----------  -------------  -----------
unfused  norm    x w             normed     33,562,624     33,554,432   67,121,152
         rope    normed cos sin  rotated    34,603,008     33,554,432    1,572,864
         quant   rotated         q scale    33,554,432     17,301,504   50,593,792
fused    fused   x w cos sin     q scale y  34,611,200     50,855,936  119,287,808

case                 plan     kernels      MB   MFLOP     AI  bytes ratio
-------------------  -------  -------  ------  ------  -----  -----------
rms_norm_rope_quant  unfused        3  186.13  119.29  0.641
                     fused          1   85.47  119.29  1.396         2.18
)");
}

TEST_CASE("a machine adds to each plan what bounds it and its time at the roof",
          "[ledger_command]") {
  const Machine h200 = load_machine("h200");
  const ordered_json json = parsed({"--op", "rope", "--machine", "h200"});
  for (const char* plan : {"unfused", "fused"}) {
    CHECK(json.at(plan).at("bound") == "memory");
    CHECK(json.at(plan).at("t_sol_us") ==
          h200.t_sol_us(json.at(plan).at("moved_bytes"), json.at(plan).at("flops")));
  }
  const ordered_json cases = parsed({"--machine", "h200"}).at("cases");
  REQUIRE(!cases.empty());
  for (const ordered_json& one : cases) {
    CHECK(one.at("unfused").contains("bound"));
    CHECK(one.at("fused").contains("t_sol_us"));
  }
  CHECK_FALSE(parsed({"--op", "rope"}).at("fused").contains("bound"));
}

TEST_CASE("a machine adds two columns and its own verdict to the table", "[ledger_command]") {
  CHECK_THAT(printed({"--machine", "h200"}),
             ContainsSubstring("bytes ratio  bound   t_sol us\n") &&
                 EndsWith("balance point 13.958 FLOP/byte (fp32).\n"
                          "10 of 10 plans are memory-bound there.\n"));
}

TEST_CASE("a machine that computes slowly bounds plans by its arithmetic", "[ledger_command]") {
  // Its balance point is 1 FLOP/byte: 1 TFLOP/s against 1000 GB/s.
  const TemporaryFile file(R"({"name": "slow", "kind": "data_sheet", "source": "made up",
      "bandwidth_gbs": {"peak": 1000}, "peak_tflops": {"fp32": 1}, "sms": 1,
      "on_chip_bytes_per_block": 1, "on_chip_bytes_per_sm": 1, "l2_bytes": 1})");
  const std::string path = file.path();
  const ordered_json json = parsed({"--op", "norm_rope_quant", "--machine", path});
  CHECK(json.at("unfused").at("bound") == "memory");
  CHECK(json.at("unfused").at("t_sol_us") == 185.622528);
  CHECK(json.at("fused").at("bound") == "compute");
  CHECK(json.at("fused").at("t_sol_us") == 119.025664);
  CHECK_THAT(printed({"--machine", path}),
             ContainsSubstring(" compute ") && EndsWith("7 of 10 plans are memory-bound there.\n"));
}

TEST_CASE("a flag that the operator does not take is refused", "[ledger_command]") {
  check_refused({"--op", "scale_add", "--m", "5"}, "--m: got \"5\", which scale_add does not take");
  check_refused({"--op", "rms_norm", "--rope-dim", "64"}, "--rope-dim: got \"64\"");
  check_refused({"--op", "rms_norm", "--out-dtype", "float16"}, "--out-dtype: got \"float16\"");
  check_refused({"--op", "rope", "--n", "5"}, "--n: got \"5\"");
  check_refused({"--op", "rope", "--with-y"}, "--with-y: given");
  check_refused({"--op", "rms_norm_rope", "--heads", "5"}, "--heads: got \"5\"");
  check_refused({"--op", "rms_norm_rope", "--group-size", "64", "--convention", "exact"},
                "--group-size: got \"64\"");
  check_refused({"--op", "norm_rope_quant", "--tokens", "5"}, "--tokens: got \"5\"");
}

TEST_CASE("an operator's flag without --op is refused", "[ledger_command]") {
  for (const Flag& flag : argument_flags()) {
    if (flag.value_name.empty()) {
      check_refused({flag.name}, flag.name + ": given without --op");
    } else {
      check_refused({flag.name, "8"}, flag.name + ": got \"8\" without --op");
    }
  }
}

TEST_CASE("groups and y are refused under the book convention", "[ledger_command]") {
  for (const std::string op : {"norm_rope_quant", "rms_norm_rope_quant"}) {
    check_refused({"--op", op, "--group-size", "128"}, "--group-size: got 128");
    check_refused({"--op", op, "--with-y", "--convention", "book"}, "--with-y: got true");
  }
}

TEST_CASE("an unknown name is refused with those known", "[ledger_command]") {
  check_refused({"--op", "softmax"}, "--op: got \"softmax\"; allowed: scale_add, rms_norm");
  check_refused({"--op", "RMS_NORM"}, "--op: got \"RMS_NORM\"");
  check_refused({"--op", ""}, "--op: got \"\"");
  check_refused({"--convention", "papers"}, "--convention: got \"papers\"; allowed: book, exact");
  check_refused({"--op", "rope", "--convention", ""}, "--convention: got \"\"");
  check_refused({"--op", "rope", "--dtype", "float8_e4m3fn"},
                "--dtype: got \"float8_e4m3fn\"; allowed: float32, float16, bfloat16");
  check_refused({"--op", "rope", "--dtype", "half"}, "--dtype: got \"half\"");
  check_refused({"--op", "norm_rope_quant", "--out-dtype", "float32"},
                "--out-dtype: got \"float32\"; allowed: float8_e4m3fn, float16, bfloat16");
  check_refused({"--machine", "abacus"}, "--machine: got \"abacus\"");
}

TEST_CASE("a size that is no whole number above zero is refused", "[ledger_command]") {
  const std::string text = GENERATE(as<std::string>(), "0", "-3", "4.5", "1e3", "0x10", "", " 5",
                                    "5 ", "+5", "nan", "9223372036854775808");
  check_refused({"--op", "rms_norm", "--m", text}, "--m: got \"" + text + "\"");
  check_refused({"--op", "rms_norm", "--n=" + text}, "--n: got \"" + text + "\"");
  check_refused({"--op", "rope", "--tokens", text}, "--tokens: got \"" + text + "\"");
  check_refused({"--op", "rope", "--heads", text}, "--heads: got \"" + text + "\"");
  check_refused({"--op", "rope", "--rope-dim", text}, "--rope-dim: got \"" + text + "\"");
  check_refused({"--op", "rms_norm_rope_quant", "--convention", "exact", "--group-size", text},
                "--group-size: got \"" + text + "\"");
}

TEST_CASE("sizes that do not go together are refused by their flags", "[ledger_command]") {
  check_refused({"--op", "rope", "--rope-dim", "63"}, "--rope-dim: got 63");
  check_refused({"--op", "rms_norm_rope", "--rope-dim", "4098"}, "--rope-dim: got 4098");
  check_refused({"--op", "norm_rope_quant", "--n", "64"}, "--rope-dim: got 128");
  check_refused({"--op", "rms_norm_rope_quant", "--convention", "exact", "--group-size", "100"},
                "--group-size: got 100");
}

TEST_CASE("products beyond int64 are refused with the sizes they are made of", "[ledger_command]") {
  check_refused({"--op", "scale_add", "--n", "9223372036854775807"}, "--n 9223372036854775807: ");
  check_refused({"--op", "rms_norm", "--m", "3037000500", "--n", "3037000500"},
                "--m 3037000500, --n 3037000500: ");
  check_refused({"--op", "rope", "--tokens", "9223372036854775807"},
                "--tokens 9223372036854775807, --heads 32, --rope-dim 128: ");
  check_refused({"--op", "rms_norm", "--m", "1", "--n", "700000000000000000"},
                "--m 1, --n 700000000000000000: ");
}

TEST_CASE("a machine file that is not there is refused by its name", "[ledger_command]") {
  check_refused({"--machine", "/nowhere/machine.json"}, "--machine: /nowhere/machine.json");
}

}  // namespace opbook::ch13
