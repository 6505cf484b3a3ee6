#include "ch02_roofline/roof.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/error.hpp"
#include "common/files.hpp"
#include "common/machine.hpp"
#include "common/test/temporary_folder.hpp"

using namespace opbook;
using namespace opbook::ch02;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

Roof roof(const char* name, const char* unit, const char* where, double median,
          std::int64_t working_set = 0, const char* how = "somehow") {
  Roof made{name, unit, where, how};
  made.working_set_bytes = working_set;
  made.median = median;
  made.p25 = median * 0.99;
  made.p75 = median * 1.01;
  made.n = 11;
  return made;
}

std::vector<Roof> some_roofs() {
  return {roof("copy", "GB/s", "one core", 90, 1 << 14),
          roof("copy", "GB/s", "all cores", 300, 1 << 14),
          roof("copy", "GB/s", "all cores", 30, 1 << 27, "ordinary stores"),
          roof("copy", "GB/s", "all cores", 40, 1 << 27, "non-temporal stores"),
          roof("read", "GB/s", "all cores", 50, 1 << 27),
          roof("fp32", "TFLOP/s", "one core", 0.2),
          roof("fp32", "TFLOP/s", "all cores", 0.1, 0, "scalar"),
          roof("fp32", "TFLOP/s", "all cores", 0.4, 0, "AVX2"),
          roof("fp64", "TFLOP/s", "all cores", 0.2)};
}

MachineInfo a_machine() {
  MachineInfo info;
  info.name = "A processor";
  info.device = "cpu";
  info.cores = 4;
  info.memory_bytes = 1 << 30;
  info.llc_bytes = 1 << 25;
  info.commit = "abc";
  info.compiler = "a compiler";
  return info;
}

}  // namespace

TEST_CASE("a rate is the amount by the time, its quartiles in order", "[roof]") {
  const double us[] = {10, 20, 40};
  Roof bandwidth{"copy", "GB/s", "all cores", "somehow"};
  fill_rate(bandwidth, 1e6, us);
  CHECK(bandwidth.median == 50);  // 1 MB in 20 us
  CHECK(bandwidth.p25 < 50);
  CHECK(bandwidth.p75 > 50);
  CHECK(bandwidth.n == 3);
  Roof peak{"fp32", "TFLOP/s", "all cores", "somehow"};
  fill_rate(peak, 2e9, us);
  CHECK(peak.median == 100);  // 2 GFLOP in 20 us
  Roof launch{"launch", "us", "stream", "somehow"};
  fill_rate(launch, 1, us);
  CHECK(launch.median == 20);
  CHECK(launch.p25 == 15);
}

TEST_CASE("the best roof is the fastest far beyond the caches, over the whole machine", "[roof]") {
  const std::vector<Roof> roofs = some_roofs();
  REQUIRE(best_roof(roofs, "copy") != nullptr);
  CHECK(best_roof(roofs, "copy")->median == 40);
  CHECK(best_roof(roofs, "fp32")->how == "AVX2");
  CHECK(best_roof(roofs, "fp8") == nullptr);
  const Roof unmeasured{"fp8", "TFLOP/s", "all SMs", "a library that is not there"};
  CHECK(best_roof({&unmeasured, 1}, "fp8") == nullptr);
}

TEST_CASE("a machine file has the best rates and every roof, and is read back", "[roof]") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "deeper" / "machine.json";
  std::vector<Roof> roofs = some_roofs();
  roofs[1].of_theory = 0.5;
  Roof missing{"fp8", "TFLOP/s", "all cores", "nothing"};
  missing.note = "there is none";
  roofs.push_back(missing);
  write_machine(path, a_machine(), {32768, 524288, "what they stand for"}, roofs);

  const Machine machine = load_machine(path.string());
  CHECK(machine.name == "A processor");
  CHECK(machine.kind == MachineKind::measured);
  CHECK_THAT(machine.source, ContainsSubstring("commit abc") && ContainsSubstring("a compiler") &&
                                 ContainsSubstring("what they stand for"));
  CHECK(machine.bandwidth_gbs.size() == 2);
  CHECK(machine.bandwidth_for("copy") == 40);
  CHECK(machine.bandwidth_for("read") == 50);
  CHECK(machine.peak_tflops.size() == 2);
  CHECK(machine.peak_for("fp32") == 0.4);
  CHECK(machine.balance_point() == 10);
  CHECK(machine.sms == 4);
  CHECK(machine.on_chip_bytes_per_block == 32768);
  CHECK(machine.l2_bytes == 1 << 25);

  const std::vector<Roof> read = read_roofs(path);
  REQUIRE(read.size() == roofs.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    CHECK(read[i].name == roofs[i].name);
    CHECK(read[i].where == roofs[i].where);
    CHECK(read[i].how == roofs[i].how);
    CHECK(read[i].working_set_bytes == roofs[i].working_set_bytes);
    CHECK((read[i].median == roofs[i].median || std::isnan(roofs[i].median)));
    CHECK(std::isnan(read[i].median) == std::isnan(roofs[i].median));
    CHECK(read[i].of_theory == roofs[i].of_theory);
    CHECK(read[i].note == roofs[i].note);
  }
}

TEST_CASE("without a copy or fp32 no machine file is written", "[roof]") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "machine.json";
  for (const char* name : {"copy", "fp32"}) {
    std::vector<Roof> roofs = some_roofs();
    std::erase_if(roofs, [&](const Roof& one) { return one.name == name; });
    CHECK_THROWS_AS(write_machine(path, a_machine(), {1, 1, ""}, roofs), ArgumentError);
  }
  CHECK(folder.files() == 0);
}

TEST_CASE("a machine file without roofs, or with odd ones, is refused by the field", "[roof]") {
  const TemporaryFolder folder;
  const auto refusal = [&](const char* text, const char* expected) {
    CHECK_THROWS_MATCHES(read_roofs(folder.write("m.json", text)), ArgumentError,
                         MessageMatches(ContainsSubstring(expected)));
  };
  refusal("{}", "m.json: roofs: missing");
  refusal(R"({"roofs": [{"name": "copy"}]})", "roofs[0].unit: missing");
  refusal(R"({"roofs": [{"name": "copy", "unit": "miles"}]})", "roofs[0].unit: got \"miles\"");
}

TEST_CASE("a roof above what theory or the data sheet allows is told", "[roof]") {
  std::vector<Roof> roofs = some_roofs();
  CHECK(impossible_roofs(roofs, a_machine()).empty());
  roofs[7].of_theory = 1.04;
  CHECK(impossible_roofs(roofs, a_machine()).empty());
  roofs[7].of_theory = 1.06;
  REQUIRE(impossible_roofs(roofs, a_machine()).size() == 1);
  CHECK_THAT(impossible_roofs(roofs, a_machine())[0],
             StartsWith("fp32, AVX2, all cores: 106 % of the theoretical peak"));

  MachineInfo t4 = a_machine();
  t4.name = "Tesla T4";
  std::vector<Roof> fast = {roof("copy", "GB/s", "all SMs", 300, 1 << 30),
                            roof("copy", "GB/s", "all SMs", 3000, 1 << 20),
                            roof("fp32", "TFLOP/s", "all SMs", 8)};
  CHECK(impossible_roofs(fast, t4).empty());  // 3000 GB/s out of a cache are no marvel
  fast[0].median = 330;
  fast[2].median = 9;
  CHECK(impossible_roofs(fast, t4).size() == 2);
  CHECK_THAT(impossible_roofs(fast, t4)[0],
             StartsWith("copy, somehow: 330.0 GB/s, but the data sheet allows 320.0"));
}

TEST_CASE("a roof far below what the clock allows is doubted", "[roof]") {
  std::vector<Roof> roofs = some_roofs();
  CHECK(doubtful_roofs(roofs).empty());  // nothing to hold it against
  roofs[7].of_theory = 0.5;
  roofs[6].of_theory = 0.1;  // not the best
  CHECK(doubtful_roofs(roofs).empty());
  roofs[7].of_theory = 0.49;
  REQUIRE(doubtful_roofs(roofs).size() == 1);
  CHECK(doubtful_roofs(roofs)[0] ==
        "fp32, AVX2, all cores: 49.0 % of the theoretical peak; was the machine busy?");
}

TEST_CASE("roofs are shown as tables, what is missing with its reason", "[roof]") {
  std::vector<Roof> roofs = some_roofs();
  Roof missing{"fp8", "TFLOP/s", "all cores", "nothing"};
  missing.note = "there is none";
  roofs.push_back(missing);
  const std::string text = render_roofs(roofs);
  CHECK_THAT(text, ContainsSubstring("Bandwidth by working set, all cores, GB/s\n\n"
                                     "working set   copy  read\n"
                                     "-----------  -----  ----\n"
                                     "     16 KiB  300.0\n"
                                     "    128 MiB   40.0  50.0\n"));
  CHECK_THAT(text, ContainsSubstring("copy  all cores  non-temporal stores"));
  CHECK_THAT(text, ContainsSubstring("fp32  all cores  AVX2       0.400  0.396 - 0.404"));
  CHECK_THAT(text, ContainsSubstring("n/a") &&
                       ContainsSubstring("fp8, nothing, all cores: there is none.\n"));
}
