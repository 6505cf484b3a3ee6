#include "ch28_design/claims.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "ch28_design/test/results_on_h200.hpp"
#include "common/error.hpp"
#include "common/test/temporary_folder.hpp"

namespace opbook::ch28 {
namespace {

using Catch::Matchers::ContainsSubstring;

const std::vector<std::int64_t> sizes{1024, 4096, 8192, 16384, 32768};

Claim claim(const Conclusion& conclusion, const std::string& whose, const std::string& beginning) {
  for (const Claim& one : conclusion.claims) {
    if (one.whose == whose && one.what.starts_with(beginning)) return one;
  }
  FAIL("no claim " << beginning);
  return {};
}

ResultRow& row_of(Results& results, Design design, std::int64_t tokens) {
  for (const DesignRow& row : design_rows(results)) {
    if (row.design == design && row.tokens == tokens) {
      return results.rows[row.row - results.rows.data()];
    }
  }
  FAIL("no row");
  return results.rows.front();
}

}  // namespace

TEST_CASE("without counters bytes are not measured, and say so", "[claims]") {
  const Conclusion conclusion = conclude(results_of(made_up_model(), sizes));
  const Claim bytes = claim(conclusion, "book", "A makes DRAM move");
  CHECK(bytes.predicted == "4.65x");
  CHECK(bytes.measured.empty());
  CHECK(bytes.verdict == Judgement::not_measured);
}

TEST_CASE("claims refuses results in which no design was timed", "[claims]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "ch13.json";
  Results results = results_of(made_up_model(), sizes);
  write_results(path, results);
  CHECK(claims_subcommand().run({{"--results", path.string()}}).exit_code == 0);
  for (ResultRow& row : results.rows) row.op = "rms_norm";
  write_results(path, results);
  CHECK_THROWS_AS(claims_subcommand().run({{"--results", path.string()}}), ArgumentError);
}

TEST_CASE("a row without a time decides nothing", "[claims]") {
  Results results = results_of(made_up_model(), sizes);
  row_of(results, Design::A, 4096).median_us = not_measured;
  const Conclusion conclusion = conclude(results);
  CHECK(claim(conclusion, "book", "A takes no less than").verdict == Judgement::not_measured);
  CHECK(claim(conclusion, "book", "A takes this much of C").verdict == Judgement::not_measured);
  CHECK(claim(conclusion, "book", "fastest first").verdict == Judgement::not_measured);
}

TEST_CASE("counters are taken from the file beside, of the same cells and machine", "[claims]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "ch28.json";
  Results results = results_of(made_up_model(), sizes), counted = results;
  row_of(counted, Design::A, 4096).dram_bytes = 77;
  row_of(counted, Design::A, 4096).dram_read_bytes = 55;
  row_of(results, Design::B, 4096).dram_bytes = 1;  // its own stays
  row_of(counted, Design::B, 4096).dram_bytes = 2;
  write_results(path, results);
  CHECK(!row_of(results = read_counted(path), Design::A, 4096).dram_bytes);
  write_results(folder.path() / "ch28_counters.json", counted);
  results = read_counted(path);
  CHECK(row_of(results, Design::A, 4096).dram_bytes == 77);
  CHECK(row_of(results, Design::A, 4096).dram_read_bytes == 55);
  CHECK(row_of(results, Design::B, 4096).dram_bytes == 1);
  CHECK(!row_of(results, Design::A, 32768).dram_bytes);
  counted.machine.name = "another";
  write_results(folder.path() / "ch28_counters.json", counted);
  CHECK(!row_of(results = read_counted(path), Design::A, 4096).dram_bytes);
}

TEST_CASE("counters decide between the book's bytes and the model's", "[claims]") {
  Results results = results_of(made_up_model(), sizes);
  const OperatorLedger op = operator_ledger({}, Convention::exact);
  row_of(results, Design::A, 4096).dram_read_bytes = op.read_bytes;
  const Conclusion cached = conclude(results);
  CHECK(claim(cached, "book", "A makes DRAM move").measured == "1.00x");
  CHECK(claim(cached, "book", "A makes DRAM move").verdict == Judgement::fails);
  CHECK(claim(cached, "model", "A makes DRAM move").verdict == Judgement::holds);
  row_of(results, Design::A, 4096).dram_read_bytes =
      static_cast<std::int64_t>(4.65 * static_cast<double>(op.ideal_bytes)) - op.write_bytes;
  const Conclusion by_the_book = conclude(results);
  CHECK(claim(by_the_book, "book", "A makes DRAM move").verdict == Judgement::holds);
  CHECK(claim(by_the_book, "model", "A makes DRAM move").verdict == Judgement::fails);
}

TEST_CASE("a time below a floor shows that it is none", "[claims]") {
  Results results = results_of(made_up_model(), sizes);
  row_of(results, Design::A, 4096).median_us = 30;
  row_of(results, Design::B, 4096).median_us = 21;
  const Conclusion conclusion = conclude(results);
  CHECK(claim(conclusion, "book", "A takes no less").predicted == "70.01 us");
  CHECK(claim(conclusion, "book", "A takes no less").verdict == Judgement::fails);
  CHECK(claim(conclusion, "book", "B takes no less").verdict == Judgement::holds);
}

TEST_CASE("the order is what was measured", "[claims]") {
  Results results = results_of(made_up_model(), sizes);
  row_of(results, Design::A, 4096).median_us = 50;
  row_of(results, Design::B, 4096).median_us = 20;
  row_of(results, Design::C, 4096).median_us = 25;
  CHECK(claim(conclude(results), "book", "fastest first").measured == "B C A");
  CHECK(claim(conclude(results), "book", "fastest first").verdict == Judgement::fails);
  row_of(results, Design::C, 4096).median_us = 19;
  CHECK(claim(conclude(results), "book", "fastest first").verdict == Judgement::holds);
}

TEST_CASE("a machine that behaves as the model has its times predicted", "[claims]") {
  const Conclusion conclusion = conclude(results_of(made_up_model(), sizes));
  REQUIRE(conclusion.predictions.size() == 8);
  for (const Predicted& one : conclusion.predictions) {
    INFO(name_of(one.design) << ' ' << one.tokens);
    CHECK(std::abs(one.error()) < 0.01);
  }
  CHECK(std::count_if(conclusion.claims.begin(), conclusion.claims.end(), [](const Claim& one) {
          return one.whose == "model" && one.verdict == Judgement::holds;
        }) == 8);
}

TEST_CASE("a time that is missed by more than 15 % does not hold", "[claims]") {
  Results results = results_of(made_up_model(), sizes);
  row_of(results, Design::C, 32768).median_us *= 1.3;
  const Claim missed = claim(conclude(results), "model", "C at 32,768 tokens");
  CHECK(missed.verdict == Judgement::fails);
  CHECK_THAT(missed.measured, ContainsSubstring("(+3"));
}

TEST_CASE("results of a CPU measure no claim, and fit nothing", "[claims]") {
  Results results = results_of(made_up_model(), sizes);
  results.machine.device = "cpu";
  const Conclusion conclusion = conclude(results);
  CHECK_FALSE(conclusion.model);
  for (const Claim& one : conclusion.claims) CHECK(one.verdict == Judgement::not_measured);
  CHECK_THAT(to_text(conclusion), ContainsSubstring("The model was not fitted"));
}

TEST_CASE("the conclusion says what was fitted, and to what", "[claims]") {
  CHECK_THAT(to_text(conclude(results_of(made_up_model(), sizes))),
             ContainsSubstring("Fitted, at 1024, 8192, 16384 tokens alone: overhead 4.50 us and "
                               "rate 4200 GB/s"));
}

}  // namespace opbook::ch28
