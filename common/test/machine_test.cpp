#include "common/machine.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "common/error.hpp"
#include "common/test/temporary_folder.hpp"

using namespace opbook;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::WithinRel;
using nlohmann::json;

namespace {

// Sums of a few correctly rounded operations: within a handful of double ulps.
constexpr double few_ulps = 8 * std::numeric_limits<double>::epsilon();

json data_sheet() {
  return json::parse(R"({
    "name": "A machine", "kind": "data_sheet", "source": "a sheet",
    "bandwidth_gbs": {"peak": 1000}, "peak_tflops": {"fp32": 20, "bf16": 300},
    "sms": 10, "on_chip_bytes_per_block": 1024, "on_chip_bytes_per_sm": 2048, "l2_bytes": 4096})");
}

Machine loaded(const std::string& content) {
  const TemporaryFolder folder;
  return load_machine(folder.write("m.json", content).string());
}

// The message that such a file is refused with, after the folder.
std::string refusal(const std::string& content) {
  try {
    loaded(content);
  } catch (const ArgumentError& error) {
    const std::string message = error.what();
    REQUIRE(message.find('\n') == message.npos);
    return message.substr(message.find("m.json"));
  }
  return "";
}

}  // namespace

TEST_CASE("the H200's data sheet ships with the book's figures", "[machine]") {
  const Machine h200 = load_machine("h200");
  REQUIRE(h200.name == "NVIDIA H200 SXM");
  REQUIRE(h200.kind == MachineKind::data_sheet);
  REQUIRE(h200.bandwidth_for("peak") == 4800);
  REQUIRE(h200.peak_for("fp64") == 34);
  REQUIRE(h200.peak_for() == 67);
  REQUIRE(h200.peak_for("bf16") == 989.5);
  REQUIRE(h200.peak_for("fp16") == 989.5);
  REQUIRE(h200.peak_for("fp8") == 1979);
  REQUIRE(h200.sms == 132);
  REQUIRE(h200.on_chip_bytes_per_block == 227 * 1024);
  REQUIRE(h200.on_chip_bytes_per_sm == 228 * 1024);
  REQUIRE(h200.l2_bytes == 60 * 1024 * 1024);
  REQUIRE(h200.memory_bytes == 141'000'000'000);
  REQUIRE_FALSE(h200.source.empty());
}

TEST_CASE("data sheets of other machines ship, each with its sources", "[machine]") {
  struct Sheet {
    const char* name;
    double bandwidth, fp32;
    std::int64_t sms, on_chip_bytes_per_block;
  };
  for (const Sheet& sheet : {Sheet{"h100", 3350, 67, 132, 227 * 1024},
                             {"a100", 2039, 19.5, 108, 163 * 1024},
                             {"l40s", 864, 91.6, 142, 99 * 1024},
                             {"rtx-4090", 1008, 82.6, 128, 99 * 1024},
                             {"rtx-3060", 360, 12.7, 28, 99 * 1024},
                             {"t4", 320, 8.1, 40, 64 * 1024},
                             {"b200", 8000, 80, 148, 227 * 1024},
                             {"ascend-910b", 1600, 94, 48, 192 * 1024},
                             {"apple-m1-max", 400, 10.4, 32, 32 * 1024},
                             {"epyc-9654", 460.8, 10.9, 96, 32 * 1024},
                             {"xeon-8480plus", 307.2, 10.75, 56, 48 * 1024}}) {
    INFO(sheet.name);
    const Machine machine = load_machine(sheet.name);
    CHECK(machine.kind == MachineKind::data_sheet);
    CHECK(machine.bandwidth_for("peak") == sheet.bandwidth);
    CHECK(machine.peak_for() == sheet.fp32);
    CHECK(machine.sms == sheet.sms);
    CHECK(machine.on_chip_bytes_per_block == sheet.on_chip_bytes_per_block);
    CHECK(machine.on_chip_bytes_per_sm >= machine.on_chip_bytes_per_block);
    CHECK(machine.l2_bytes > machine.on_chip_bytes_per_sm);
    CHECK(machine.source.size() > 100);
  }
}

TEST_CASE("a machine's data sheet is found by a part of its name", "[machine]") {
  REQUIRE(data_sheet_of("NVIDIA H200"));
  CHECK(data_sheet_of("NVIDIA H200")->name == "NVIDIA H200 SXM");
  CHECK(data_sheet_of("Tesla T4")->name == "NVIDIA T4");
  CHECK(data_sheet_of("NVIDIA GeForce RTX 4090")->bandwidth_for("peak") == 1008);
  CHECK_FALSE(data_sheet_of("NVIDIA H2000"));
  CHECK_FALSE(data_sheet_of(""));
}

TEST_CASE("a data sheet goes by one name alone, a measurement by its folder's", "[machine]") {
  for (const auto& [name, path] : known_machines()) {
    INFO(name);
    const bool sheet = load_machine(name).kind == MachineKind::data_sheet;
    CHECK(sheet == (path.parent_path().filename() == "machines"));
  }
}

TEST_CASE("the balance point is peak over bandwidth, per unit", "[machine]") {
  const Machine machine = loaded(data_sheet().dump());
  REQUIRE_THAT(machine.balance_point(), WithinRel(20.0, few_ulps));  // 20e12 / 1000e9
  REQUIRE_THAT(machine.balance_point("bf16"), WithinRel(300.0, few_ulps));
}

TEST_CASE("the speed of light is the longer of memory and arithmetic", "[machine]") {
  const Machine machine = loaded(data_sheet().dump());
  // 1 GB at 1000 GB/s: 1 ms. 40 GFLOP at 20 TFLOP/s: 2 ms, at 300: 133 us.
  REQUIRE_THAT(machine.t_sol_us(1'000'000'000, 0), WithinRel(1000.0, few_ulps));
  REQUIRE_THAT(machine.t_sol_us(1'000'000'000, 40'000'000'000), WithinRel(2000.0, few_ulps));
  REQUIRE_THAT(machine.t_sol_us(1'000'000'000, 40'000'000'000, "bf16"),
               WithinRel(1000.0, few_ulps));
  REQUIRE(machine.t_sol_us(0, 0) == 0);
  REQUIRE(machine.t_sol_us(std::numeric_limits<std::int64_t>::max(), 1) > 9e12);
}

TEST_CASE("the book's fused RMSNorm takes 14 microseconds on the data sheet", "[machine]") {
  // 4096 x 4096 float16: r x w, w y; 4mn + 2m FLOPs.
  const std::int64_t bytes = 2 * 4096 * 4096 * 2 + 4096 * 2;
  const std::int64_t flops = 4 * 4096 * 4096 + 2 * 4096;
  const Machine h200 = load_machine("h200");
  REQUIRE_THAT(h200.t_sol_us(bytes, flops), WithinRel(67117056 / 4800e3, few_ulps));
  REQUIRE(h200.memory_bound(bytes, flops));
}

TEST_CASE("an operator is memory-bound left of the balance point, and only there", "[machine]") {
  const Machine machine = loaded(data_sheet().dump());
  REQUIRE(machine.memory_bound(100, 1999));
  REQUIRE_FALSE(machine.memory_bound(100, 2000));
  REQUIRE_FALSE(machine.memory_bound(100, 2001));
  REQUIRE(machine.memory_bound(100, 2001, "bf16"));
  REQUIRE(machine.memory_bound(1, 0));
  REQUIRE_FALSE(machine.memory_bound(0, 1));
  REQUIRE_FALSE(machine.memory_bound(0, 0));
}

TEST_CASE("negative bytes or FLOPs, and units that are not there, are refused", "[machine]") {
  const Machine machine = loaded(data_sheet().dump());
  REQUIRE_THROWS_MATCHES(machine.t_sol_us(-1, 0), ArgumentError,
                         MessageMatches(ContainsSubstring("bytes: got -1")));
  REQUIRE_THROWS_AS(machine.t_sol_us(0, -1), ArgumentError);
  REQUIRE_THROWS_AS(machine.memory_bound(-1, 0), ArgumentError);
  REQUIRE_THROWS_MATCHES(machine.balance_point("fp8"), ArgumentError,
                         MessageMatches(EndsWith("got \"fp8\"; allowed on A machine: bf16, fp32")));
  REQUIRE_THROWS_AS(machine.bandwidth_for("raed"), ArgumentError);
}

TEST_CASE("a mix that was not measured has the copy's bandwidth, else the peak", "[machine]") {
  json measured = data_sheet();
  measured["kind"] = "measured";
  measured["bandwidth_gbs"] = {{"copy", 800}, {"read", 900}};
  const Machine machine = loaded(measured.dump());
  REQUIRE(machine.kind == MachineKind::measured);
  REQUIRE(machine.bandwidth_for() == 800);
  REQUIRE(machine.bandwidth_for("read") == 900);
  REQUIRE(machine.bandwidth_for("triad") == 800);
  REQUIRE(machine.bandwidth_for("peak") == 800);
  REQUIRE_THAT(machine.balance_point(), WithinRel(25.0, few_ulps));
  REQUIRE_THAT(machine.t_sol_us(8'000'000, 0), WithinRel(10.0, few_ulps));

  REQUIRE(loaded(data_sheet().dump()).bandwidth_for("triad") == 1000);
}

TEST_CASE("a machine file lacking any required field is refused by that name", "[machine]") {
  const json whole = data_sheet();
  for (const auto& item : whole.items()) {
    json lacking = whole;
    lacking.erase(item.key());
    REQUIRE(refusal(lacking.dump()) == "m.json: " + item.key() + ": missing");
  }
  json lacking = data_sheet();
  lacking["bandwidth_gbs"] = {{"copy", 800}};
  REQUIRE(refusal(lacking.dump()) == "m.json: bandwidth_gbs.peak: missing");
  lacking["kind"] = "measured";
  REQUIRE(refusal(lacking.dump()) == "");
  lacking["bandwidth_gbs"] = {{"peak", 800}};
  REQUIRE(refusal(lacking.dump()) == "m.json: bandwidth_gbs.copy: missing");
  lacking = data_sheet();
  lacking["peak_tflops"].erase("fp32");
  REQUIRE(refusal(lacking.dump()) == "m.json: peak_tflops.fp32: missing");
}

TEST_CASE("a rate or a size that is no number above zero is refused by its name", "[machine]") {
  for (const char* const bad : {"0", "-1", "\"5\"", "\"NaN\"", "null", "true", "[1]", "{}"}) {
    INFO(bad);
    for (const char* const field :
         {"sms", "on_chip_bytes_per_block", "on_chip_bytes_per_sm", "l2_bytes", "memory_bytes"}) {
      json sheet = data_sheet();
      sheet[field] = json::parse(bad);
      REQUIRE_THAT(refusal(sheet.dump()),
                   ContainsSubstring(std::string("m.json: ") + field + ": got ") &&
                       ContainsSubstring("allowed: a whole number from 1"));
    }
    for (const auto& [field, name] :
         {std::pair("bandwidth_gbs", "peak"), std::pair("bandwidth_gbs", "triad"),
          std::pair("peak_tflops", "fp32"), std::pair("peak_tflops", "fp8")}) {
      json sheet = data_sheet();
      sheet[field][name] = json::parse(bad);
      REQUIRE_THAT(refusal(sheet.dump()),
                   ContainsSubstring(std::string(field) + "." + name + ": got ") &&
                       ContainsSubstring("allowed: a number above zero"));
    }
  }
  json sheet = data_sheet();
  for (const char* const bad : {"1.5", "9223372036854775808", "1e3"}) {
    sheet["sms"] = json::parse(bad);
    REQUIRE_THAT(refusal(sheet.dump()), ContainsSubstring("m.json: sms: got "));
  }
  sheet["sms"] = std::numeric_limits<std::int64_t>::max();
  REQUIRE(refusal(sheet.dump()) == "");
}

TEST_CASE("texts, kinds, mixes and units must be of those allowed", "[machine]") {
  const auto with = [](const char* field, const json& value) {
    json sheet = data_sheet();
    sheet[field] = value;
    return refusal(sheet.dump());
  };
  REQUIRE_THAT(with("name", ""), ContainsSubstring("name: got \"\""));
  REQUIRE_THAT(with("source", 5), ContainsSubstring("source: got 5; allowed: a text"));
  REQUIRE(with("kind", "guessed") ==
          "m.json: kind: got \"guessed\"; allowed: data_sheet, measured");
  REQUIRE_THAT(with("bandwidth_gbs", 4800),
               ContainsSubstring("bandwidth_gbs: got 4800; allowed: an object"));
  REQUIRE_THAT(with("bandwidth_gbs", {{"peak", 1}, {"raed", 2}}),
               ContainsSubstring("bandwidth_gbs: got \"raed\"; allowed: peak, read"));
  REQUIRE_THAT(with("peak_tflops", {{"fp32", 1}, {"fp4", 2}}),
               ContainsSubstring("peak_tflops: got \"fp4\"; allowed: fp64"));
  REQUIRE(with("measured_on", "a Monday") == "");
}

TEST_CASE("what is not JSON, or no object, is refused with the place", "[machine]") {
  REQUIRE_THAT(refusal(""), ContainsSubstring("m.json: is not JSON"));
  REQUIRE_THAT(refusal("{\n\"sms\": NaN}"),
               ContainsSubstring("is not JSON: parse error at line 2"));
  REQUIRE_THAT(refusal("{\"sms\": 1e999}"), ContainsSubstring("is not JSON"));
  REQUIRE_THAT(refusal("[1]"), ContainsSubstring("m.json: got an array; allowed: an object"));
  REQUIRE_THAT(refusal(data_sheet().dump().substr(0, 100)), ContainsSubstring("is not JSON"));
  // Depth must not exhaust the stack.
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  REQUIRE_THAT(refusal("{\"name\": " + deep + "}"), ContainsSubstring("name: got an array"));
}

TEST_CASE("an unknown machine is refused with the list of the known", "[machine]") {
  for (const char* const unknown : {"h300", "", "..", "h200 "}) {
    REQUIRE_THROWS_MATCHES(
        load_machine(unknown), ArgumentError,
        MessageMatches(ContainsSubstring(std::string("got \"") + unknown + "\"") &&
                       ContainsSubstring("h200") && EndsWith(", or a .json file")));
  }
  REQUIRE_THROWS_MATCHES(load_machine("none.json"), ArgumentError,
                         MessageMatches(ContainsSubstring("none.json: no such file")));
  REQUIRE_THROWS_MATCHES(load_machine("./"), ArgumentError,
                         MessageMatches(ContainsSubstring("folder")));
}

TEST_CASE("every machine that goes by a name can be loaded", "[machine]") {
  const auto known = known_machines();
  REQUIRE(known.contains("h200"));
  for (const auto& [name, path] : known) {
    INFO(name);
    REQUIRE_NOTHROW(load_machine(name));
  }
}
