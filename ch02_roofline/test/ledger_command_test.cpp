#include "ch02_roofline/ledger_command.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/machine.hpp"
#include "common/test/temporary_folder.hpp"

namespace opbook::ch02 {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using nlohmann::json;

/// Balance points 10 (fp32) and 100 (bf16) FLOP/byte.
constexpr const char* small_machine = R"({"name": "Small", "kind": "measured", "source": "made up",
    "bandwidth_gbs": {"copy": 100, "read": 120}, "peak_tflops": {"fp32": 1, "bf16": 10}, "sms": 1,
    "on_chip_bytes_per_block": 1, "on_chip_bytes_per_sm": 1, "l2_bytes": 1})";

Outcome ledger(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ledger");
  const Subcommand subcommands[] = {ledger_subcommand()};
  return run_subcommand("ch02", "Chapter 2", subcommands, arguments);
}

std::string printed(const std::vector<std::string>& arguments) {
  const Outcome outcome = ledger(arguments);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  return outcome.out;
}

json parsed(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  return json::parse(printed(arguments));
}

/// Refused: exit code 2, nothing on stdout, one line on stderr that begins as said.
void check_refused(const std::vector<std::string>& arguments, const std::string& beginning) {
  for (const bool as_json : {false, true}) {
    std::vector<std::string> all = arguments;
    if (as_json) all.insert(all.begin(), "--json");
    const Outcome outcome = ledger(all);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, StartsWith("ch02: " + beginning) && ContainsSubstring("; allowed: "));
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  }
}

}  // namespace

TEST_CASE("one chain is printed with its kernels", "[ledger_command]") {
  CHECK(printed({"--op", "multiply_add_chain", "--n", "1000000", "--k", "32"}) ==
        R"(multiply_add_chain: n 1000000, k 32, dtype float32

plan     kernel                   reads  writes  bytes read  bytes written        FLOP
-------  -----------------------  -----  ------  ----------  -------------  ----------
unfused  step_1                   x      y        4,000,000      4,000,000   2,000,000
         step_2 to step_32, each  y      y        4,000,000      4,000,000   2,000,000
fused    fused                    x      y        4,000,000      4,000,000  64,000,000

 k  plan     kernels      MB  MFLOP     AI  bytes ratio
--  -------  -------  ------  -----  -----  -----------
32  unfused       32  256.00  64.00  0.250
    fused          1    8.00  64.00  8.000        32.00
)");
}

TEST_CASE("a chain as JSON has every kernel", "[ledger_command]") {
  const json chain =
      parsed({"--op", "multiply_add_chain", "--n", "10", "--k", "3", "--dtype", "bfloat16"});
  CHECK(chain.at("op") == "multiply_add_chain");
  CHECK(chain.at("args") == json{{"n", 10}, {"k", 3}, {"dtype", "bfloat16"}});
  CHECK(chain.at("unfused").at("kernels") == 3);
  CHECK(chain.at("unfused").at("moved_bytes") == 120);
  CHECK(chain.at("unfused").at("flops") == 60);
  CHECK(chain.at("unfused").at("ops").size() == 3);
  CHECK(chain.at("fused").at("moved_bytes") == 40);
  CHECK(chain.at("fused").at("flops") == 60);
  CHECK(chain.at("fused").at("ai") == 1.5);
  CHECK(chain.at("bytes_ratio") == 3);
  CHECK_FALSE(chain.contains("machines"));
  CHECK_FALSE(chain.at("fused").contains("bound"));
}

TEST_CASE("without an operator the chain comes at several lengths", "[ledger_command]") {
  const json cases = parsed({}).at("cases");
  REQUIRE(cases.size() == std::size(shown_steps));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CHECK(cases[i].at("args").at("k") == shown_steps[i]);
    CHECK(cases[i] ==
          parsed({"--op", "multiply_add_chain", "--k", std::to_string(shown_steps[i])}));
  }
  CHECK_THAT(printed({"--machine", "h200"}),
             ContainsSubstring("h200: the fused chain is memory-bound up to k = 55.\n"));
}

TEST_CASE("bytes and FLOPs are placed under the roof", "[ledger_command]") {
  const TemporaryFolder folder;
  const std::string path = folder.write("small.json", small_machine).string();
  const json left = parsed({"--bytes", "1000000", "--flops", "9999999", "--machine", path});
  CHECK(left.at("ai") == 9.999999);
  CHECK(left.at("bound") == "memory");
  CHECK(left.at("t_sol_us") == 10);  // 1 MB at 100 GB/s
  const json right = parsed({"--bytes", "1000000", "--flops", "20000000", "--machine", path});
  CHECK(right.at("bound") == "compute");
  CHECK(right.at("t_sol_us") == 20);  // 20 MFLOP at 1 TFLOP/s
  const json other =
      parsed({"--bytes", "1000000", "--flops", "20000000", "--machine", path, "--unit", "bf16"});
  CHECK(other.at("bound") == "memory");
  CHECK(other.at("machines")[0].at("balance_point") == 100);
  CHECK(parsed({"--bytes", "5", "--flops", "0"}).at("ai") == 0);
  CHECK(printed({"--bytes", "1000000", "--flops", "20000000", "--machine", path}) ==
        "    bytes        FLOP      AI  bound    t_sol us\n"
        "---------  ----------  ------  -------  --------\n"
        "1,000,000  20,000,000  20.000  compute    20.000\n"
        "\n"
        "Small: 100.0 GB/s and 1.00 TFLOP/s (fp32), measured; balance point 10.000 FLOP/byte.\n");
}

TEST_CASE("several machines stand side by side, in the order asked for", "[ledger_command]") {
  const std::vector<std::string> chain = {"--op", "multiply_add_chain", "--k", "40", "--machine",
                                          "t4",   "--machine",          "h200"};
  const json machines = parsed(chain).at("machines");
  REQUIRE(machines.size() == 2);
  CHECK(machines[0].at("machine") == "t4");
  CHECK(machines[0].at("kind") == "data_sheet");
  CHECK(machines[1].at("machine") == "h200");
  CHECK(machines[1].at("name") == "NVIDIA H200 SXM");
  // 10 FLOP/byte: left of an H200's balance point, 13.96; a T4's is 25.3.
  for (const json& machine : machines) {
    const Machine loaded = load_machine(machine.at("machine").get<std::string>());
    CHECK(machine.at("fused").at("bound") == "memory");
    CHECK(machine.at("unfused").at("bound") == "memory");
    CHECK(machine.at("fused").at("t_sol_us") == loaded.t_sol_us(8LL * 1048576, 80LL * 1048576));
  }
  CHECK_FALSE(parsed(chain).contains("bound"));
  CHECK_FALSE(parsed(chain).at("fused").contains("bound"));
  CHECK_THAT(printed(chain),
             ContainsSubstring("  t4: bound ") && ContainsSubstring("  h200: bound  t_sol us\n"));
  const json counts =
      parsed({"--bytes", "1", "--flops", "20", "--machine", "h200", "--machine", "t4"});
  CHECK(counts.at("machines")[0].at("bound") == "compute");
  CHECK(counts.at("machines")[1].at("bound") == "memory");
}

TEST_CASE("one machine's verdict stands in the plans too", "[ledger_command]") {
  const json chain = parsed({"--op", "multiply_add_chain", "--k", "1000", "--machine", "h200"});
  CHECK(chain.at("unfused").at("bound") == "memory");
  CHECK(chain.at("fused").at("bound") == "compute");
  CHECK(chain.at("fused").at("t_sol_us") == chain.at("machines")[0].at("fused").at("t_sol_us"));
}

TEST_CASE("every machine that ships places the chain", "[ledger_command]") {
  for (const auto& [name, path] : known_machines()) {
    INFO(name);
    CHECK(parsed({"--machine", name}).at("cases").size() == std::size(shown_steps));
  }
}

TEST_CASE("a size that is no whole number above zero is refused", "[ledger_command]") {
  const std::string text = GENERATE(as<std::string>(), "0", "-3", "4.5", "1e3", "0x10", "", " 5",
                                    "5 ", "+5", "nan", "9223372036854775808", "010");
  check_refused({"--op", "multiply_add_chain", "--n", text}, "--n: got \"" + text + "\"");
  check_refused({"--op", "multiply_add_chain", "--k=" + text}, "--k: got \"" + text + "\"");
  check_refused({"--bytes", text, "--flops", "5"}, "--bytes: got \"" + text + "\"");
  if (text != "0")
    check_refused({"--bytes", "5", "--flops", text}, "--flops: got \"" + text + "\"");
}

TEST_CASE("what does not go together is refused", "[ledger_command]") {
  check_refused({"--op", "multiply_add_chain", "--k", "65537"}, "--k: got \"65537\"");
  check_refused({"--op", "multiply_add_chain", "--n", "9223372036854775807"},
                "--n 9223372036854775807, --k 64: ");
  check_refused({"--n", "5"}, "--n: got \"5\" without --op");
  check_refused({"--k", "5"}, "--k: got \"5\" without --op");
  check_refused({"--dtype", "float16"}, "--dtype: got \"float16\" without --op");
  check_refused({"--bytes", "5"}, "--bytes: got \"5\" alone");
  check_refused({"--flops", "5"}, "--flops: got \"5\" alone");
  check_refused({"--op", "multiply_add_chain", "--bytes", "5", "--flops", "5"},
                "--bytes: got \"5\" with --op");
  check_refused({"--unit", "bf16"}, "--unit: got \"bf16\" without --machine");
  check_refused({"--bytes", "5", "--flops", "5", "--unit", "fp32"},
                "--unit: got \"fp32\" without --machine");
  check_refused({"--bytes", "5", "--flops", "5", "--n", "5"}, "--n: got \"5\" without --op");
}

TEST_CASE("an unknown name is refused with those known", "[ledger_command]") {
  check_refused({"--op", "softmax"}, "--op: got \"softmax\"; allowed: multiply_add_chain");
  check_refused({"--op", ""}, "--op: got \"\"");
  check_refused({"--op", "multiply_add_chain", "--dtype", "half"}, "--dtype: got \"half\"");
  check_refused({"--op", "multiply_add_chain", "--dtype", "float8_e4m3fn"}, "--dtype: got");
  check_refused({"--convention", "papers"}, "--convention: got \"papers\"; allowed: book, exact");
  check_refused({"--machine", "abacus"}, "--machine: got \"abacus\"");
  check_refused({"--machine", "h200", "--machine", ""}, "--machine: got \"\"");
  check_refused({"--machine", "/nowhere/m.json"}, "--machine: /nowhere/m.json");
  check_refused({"--unit", "fp4"}, "--unit: got \"fp4\"; allowed: fp64, fp32");
  CHECK(ledger({"--machine", "t4", "--unit", "fp8"}).exit_code == 2);
  CHECK(ledger({"--machine", "t4", "--unit", "fp8"}).err ==
        "ch02: --unit: got \"fp8\"; allowed on NVIDIA T4: fp16, fp32\n");
}

TEST_CASE("a machine file with a field that is wrong is refused by the field", "[ledger_command]") {
  const TemporaryFolder folder;
  for (const auto& [from, to, field] :
       {std::tuple(R"("copy": 100)", R"("copy": -1)", "bandwidth_gbs.copy: got -1"),
        {R"("copy": 100)", R"("copy": "fast")", "bandwidth_gbs.copy: got \"fast\""},
        {R"("copy": 100, )", "", "bandwidth_gbs.copy: missing"},
        {R"("fp32": 1, )", "", "peak_tflops.fp32: missing"},
        {R"("sms": 1,)", "", "sms: missing"},
        {R"("sms": 1,)", R"("sms": 0,)", "sms: got 0"}}) {
    std::string text = small_machine;
    text.replace(text.find(from), std::string(from).size(), to);
    const std::string path = folder.write("wrong.json", text).string();
    check_refused({"--machine", path}, "--machine: " + path + ": " + field);
  }
}

}  // namespace opbook::ch02
