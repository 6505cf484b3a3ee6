#include "common/results.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "common/error.hpp"
#include "common/files.hpp"
#include "common/show.hpp"
#include "common/test/temporary_folder.hpp"

using namespace opbook;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using nlohmann::json;

namespace {

ResultRow example_row() {
  ResultRow row;
  row.op = "rms_norm";
  row.shape = {4096, 4096};
  row.dtype = "float16";
  row.plan = "fused";
  row.device = "cpu";
  row.temperature = "cold";
  row.bytes = 67117056;
  row.flops = 67121152;
  row.median_us = 5000.125;
  row.p25_us = 4900;
  row.p75_us = 5100.1;
  row.n = 41;
  row.gb_per_s = 13.423;
  row.roof = "copy";
  row.share_of_roof = 0.91;
  row.share_lo = 0.905;
  row.share_hi = 0.1 + 0.2;  // no short decimal: must survive all the same
  row.worst_ulp = 0.5;
  return row;
}

/// Two steps, the second in half the time of the first.
Results example_steps() {
  Results results;
  results.machine.device = "cuda";
  ResultRow row = example_row();
  row.plan = "naive";
  row.adds = "a thread a row";
  results.rows.push_back(row);
  row.plan = "block";
  row.adds = "a block a row";
  row.median_us /= 2;
  results.rows.push_back(row);
  return results;
}

ResultRow full_row() {
  ResultRow row = example_row();
  row.share_of_converting_copy = 0.95;
  row.share_of_converting_copy_lo = 0.94;
  row.share_of_converting_copy_hi = 0.96;
  row.replay_read_bytes = 1;
  row.replay_write_bytes = 2;
  row.replay_flops = 3;
  row.refetched_bytes = 0;
  row.on_chip_bytes = 16384;
  row.cache_model_bytes = 4;
  row.dram_bytes = std::numeric_limits<std::int64_t>::max();
  row.counters_note = "";
  row.adds = "an idea";
  return row;
}

Results example() {
  Results results;
  results.machine = {.name = "A CPU",
                     .device = "cpu",
                     .cores = 2,
                     .sms = 0,
                     .memory_bytes = 1 << 30,
                     .llc_bytes = 32 << 20,
                     .driver = "a driver",
                     .toolkit = "a toolkit",
                     .clocks = "2445 MHz",
                     .compiler = "GCC",
                     .commit = "0123456789ab"};
  results.rows = {example_row()};
  return results;
}

json written(const Results& results) {
  const TemporaryFolder folder;
  write_results(folder.path() / "r.json", results);
  return json::parse(read_file(folder.path() / "r.json"));
}

std::string refusal(const json& document) {
  const TemporaryFolder folder;
  try {
    read_results(folder.write("r.json", document.dump()));
  } catch (const ArgumentError& error) {
    const std::string message = error.what();
    REQUIRE(message.find('\n') == message.npos);
    return message.substr(message.find("r.json"));
  }
  return "";
}

}  // namespace

TEST_CASE("results survive a round trip, each field", "[results]") {
  Results results = example();
  results.rows.push_back(full_row());

  const TemporaryFolder folder;
  const auto path = folder.path() / "some machine" / "ch13.json";
  write_results(path, results);
  REQUIRE(folder.files() == 1);
  const Results read = read_results(path);
  REQUIRE(read.rows.size() == 2);

  // What was read writes the same file: so no field is lost, whichever it is.
  write_results(folder.path() / "again.json", read);
  REQUIRE(read_file(folder.path() / "again.json") == read_file(path));

  REQUIRE(read.machine.name == "A CPU");
  REQUIRE(read.machine.llc_bytes == 32 << 20);
  REQUIRE(read.machine.commit == "0123456789ab");
  REQUIRE(read.rows[0].shape == std::vector<std::int64_t>{4096, 4096});
  REQUIRE(read.rows[0].median_us == 5000.125);
  REQUIRE(read.rows[0].share_hi == 0.1 + 0.2);
  REQUIRE(read.rows[0].worst_ulp == 0.5);
  REQUIRE_FALSE(read.rows[0].replay_read_bytes.has_value());
  REQUIRE_FALSE(read.rows[0].share_of_converting_copy.has_value());
  REQUIRE_FALSE(read.rows[0].counters_note.has_value());
  REQUIRE(read.rows[1].refetched_bytes == 0);
  REQUIRE(read.rows[1].dram_bytes == std::numeric_limits<std::int64_t>::max());
  REQUIRE(read.rows[1].share_of_converting_copy_hi == 0.96);
  REQUIRE(read.rows[1].counters_note == "");
}

TEST_CASE("a results file has the fields of its schema, the empty ones left out", "[results]") {
  REQUIRE(written(example()) == json::parse(R"({
    "schema": 1,
    "machine": {"name": "A CPU", "device": "cpu", "cores": 2, "sms": 0, "memory_bytes": 1073741824,
                "llc_bytes": 33554432, "driver": "a driver", "toolkit": "a toolkit",
                "clocks": "2445 MHz", "compiler": "GCC", "commit": "0123456789ab"},
    "rows": [{"op": "rms_norm", "shape": [4096, 4096], "dtype": "float16", "plan": "fused",
              "device": "cpu", "temperature": "cold", "bytes": 67117056, "flops": 67121152,
              "median_us": 5000.125, "p25_us": 4900.0, "p75_us": 5100.1, "n": 41,
              "gb_per_s": 13.423, "roof": "copy", "share_of_roof": 0.91, "share_lo": 0.905,
              "share_hi": 0.30000000000000004, "worst_ulp": 0.5}]})"));
}

TEST_CASE("a row's optional fields stand under their own names", "[results]") {
  Results results = example();
  results.rows = {full_row()};
  json row = written(results)["rows"][0];
  const json optional = json::parse(R"({
    "share_of_converting_copy": 0.95, "share_of_converting_copy_lo": 0.94,
    "share_of_converting_copy_hi": 0.96, "replay_read_bytes": 1, "replay_write_bytes": 2,
    "replay_flops": 3, "refetched_bytes": 0, "on_chip_bytes": 16384, "cache_model_bytes": 4,
    "dram_bytes": 9223372036854775807, "counters_note": "", "adds": "an idea"})");
  REQUIRE(row.size() == 18 + optional.size());
  for (const auto& item : optional.items()) {
    INFO(item.key());
    REQUIRE(row.at(item.key()) == item.value());
  }
}

TEST_CASE("what was not measured is written as null and read as NaN", "[results]") {
  Results results = example();
  ResultRow& row = results.rows[0];
  row.median_us = std::numeric_limits<double>::quiet_NaN();
  row.gb_per_s = std::numeric_limits<double>::infinity();
  row.share_of_converting_copy = std::numeric_limits<double>::quiet_NaN();
  const json document = written(results);
  REQUIRE(document["rows"][0].at("median_us").is_null());
  REQUIRE(document["rows"][0].at("gb_per_s").is_null());
  REQUIRE(document["rows"][0].at("share_of_converting_copy").is_null());

  const TemporaryFolder folder;
  const Results read = read_results(folder.write("r.json", document.dump()));
  REQUIRE(std::isnan(read.rows[0].median_us));
  REQUIRE(std::isnan(read.rows[0].gb_per_s));
  REQUIRE(std::isnan(read.rows[0].share_of_converting_copy.value()));
  REQUIRE(read.rows[0].p25_us == 4900);
  REQUIRE(std::isnan(ResultRow().worst_ulp));
}

TEST_CASE("results without rows are results", "[results]") {
  Results results = example();
  results.rows.clear();
  const TemporaryFolder folder;
  write_results(folder.path() / "r.json", results);
  REQUIRE(read_results(folder.path() / "r.json").rows.empty());
}

TEST_CASE("a name in a broken encoding is written all the same", "[results]") {
  Results results = example();
  results.machine.name = "CPU \xFF";
  REQUIRE(written(results)["machine"]["name"] == "CPU \xEF\xBF\xBD");
}

TEST_CASE("a results file lacking a field is refused by that name", "[results]") {
  const json whole = written(example());
  REQUIRE(refusal(whole) == "");
  for (const char* const field : {"schema", "machine", "rows"}) {
    json document = whole;
    document.erase(field);
    REQUIRE(refusal(document) == std::string("r.json: ") + field + ": missing");
  }
  for (const auto& item : whole["machine"].items()) {
    json document = whole;
    document["machine"].erase(item.key());
    REQUIRE(refusal(document) == "r.json: machine." + item.key() + ": missing");
  }
  for (const auto& item : whole["rows"][0].items()) {
    json document = whole;
    document["rows"].push_back(whole["rows"][0]);
    document["rows"][1].erase(item.key());
    REQUIRE(refusal(document) == "r.json: rows[1]." + item.key() + ": missing");
  }
}

TEST_CASE("a field of the wrong type or a negative number is refused by its name", "[results]") {
  const json whole = written(example());
  for (const auto& item : whole["rows"][0].items()) {
    for (const json& bad : {json(-1), json(false), json::object()}) {
      json document = whole;
      document["rows"][0][item.key()] = bad;
      REQUIRE_THAT(refusal(document),
                   ContainsSubstring("r.json: rows[0]." + item.key() + ": got "));
    }
  }
  for (const auto& item : whole["machine"].items()) {
    json document = whole;
    document["machine"][item.key()] = json::array();
    REQUIRE_THAT(refusal(document), ContainsSubstring("r.json: machine." + item.key() + ": got "));
  }
  const auto with = [&](const char* field, const json& bad) {
    json document = whole;
    document["rows"][0][field] = bad;
    return refusal(document);
  };
  REQUIRE_THAT(with("op", ""), ContainsSubstring("op: got \"\""));
  REQUIRE_THAT(with("device", "gpu"), ContainsSubstring("device: got \"gpu\"; allowed: cpu, cuda"));
  REQUIRE_THAT(with("temperature", "warm"), ContainsSubstring("allowed: cold, hot"));
  REQUIRE_THAT(with("shape", {4, -4}), ContainsSubstring("shape: got an array"));
  REQUIRE_THAT(with("shape", {4, 1.5}), ContainsSubstring("shape: got an array"));
  REQUIRE_THAT(with("bytes", 1.5), ContainsSubstring("bytes: got 1.5"));
  REQUIRE_THAT(with("bytes", nullptr), ContainsSubstring("bytes: got null"));
  REQUIRE_THAT(with("median_us", "NaN"), ContainsSubstring("median_us: got \"NaN\""));
  REQUIRE_THAT(with("dram_bytes", -5), ContainsSubstring("dram_bytes: got -5"));
  REQUIRE(with("more", "beside them") == "");
}

TEST_CASE("another schema, and what is no object, are refused", "[results]") {
  json document = written(example());
  document["schema"] = 2;
  REQUIRE(refusal(document) == "r.json: schema: got 2; allowed: 1");
  document["schema"] = 1;
  document["rows"][0] = 5;
  REQUIRE(refusal(document) == "r.json: rows[0]: got 5; allowed: an object");
  document["rows"] = json::object();
  REQUIRE_THAT(refusal(document), ContainsSubstring("r.json: rows: got an object"));
  REQUIRE_THAT(refusal(json::array()), ContainsSubstring("r.json: got an array"));
}

TEST_CASE("missing, damaged and unwritable results files are refused", "[results]") {
  const TemporaryFolder folder;
  REQUIRE_THROWS_MATCHES(read_results(folder.path() / "none.json"), ArgumentError,
                         MessageMatches(ContainsSubstring("none.json: no such file")));
  REQUIRE_THROWS_MATCHES(read_results(folder.write("cut.json", "{\"schema\": 1, \"ma")),
                         ArgumentError, MessageMatches(ContainsSubstring("cut.json: is not JSON")));
  REQUIRE_THROWS_AS(write_results(folder.path() / "cut.json" / "below.json", example()),
                    ArgumentError);
  REQUIRE(folder.files() == 1);
}

TEST_CASE("bytes that passed through the L2 have a column where they were counted") {
  Results results;
  results.rows = {example_row(), example_row()};
  CHECK_THAT(render_results(results), !ContainsSubstring("L2 MB"));
  results.rows[1].l2_bytes = 123456789;
  CHECK_THAT(render_results(results), ContainsSubstring("L2 MB") && ContainsSubstring("123.46"));
}

TEST_CASE("both plans of a problem in one line, and no line for one that stands alone") {
  ResultRow unfused = example_row(), fused = example_row();
  unfused.plan = "unfused";
  unfused.bytes = 700;
  unfused.median_us = 30;
  fused.plan = "fused";
  fused.bytes = 200;
  fused.median_us = 12;
  Results results;
  results.rows = {unfused, fused, fused};
  const std::string text = render_pairs(results);
  CHECK_THAT(text, ContainsSubstring("3.50x  2.50x"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 5);  // the machine, the heading, the pair
}

TEST_CASE("steps show what each adds and by how much it is faster than the one before",
          "[results]") {
  const std::string text = render_results(example_steps());
  CHECK_THAT(text, ContainsSubstring("naive") && ContainsSubstring("a thread a row\n"));
  CHECK_THAT(text, ContainsSubstring("2.00x  a block a row\n"));
  CHECK_THAT(text, !ContainsSubstring("ledger") && !ContainsSubstring("fusion"));
  Results other = example_steps();
  other.rows[1].op = "layer_norm";  // does not follow the one before
  CHECK_THAT(render_results(other), !ContainsSubstring("2.00x"));
}
