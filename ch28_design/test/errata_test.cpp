#include "ch28_design/errata.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "ch28_design/ledger.hpp"
#include "ch28_design/ledger_command.hpp"
#include "common/errata_command.hpp"
#include "common/table.hpp"

namespace opbook::ch28 {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using nlohmann::ordered_json;

Erratum erratum(int number) {
  for (Erratum& entry : errata()) {
    if (entry.number == number) return entry;
  }
  FAIL("no erratum " << number);
  return {};
}

/// One figure, by the beginning of its label and by its measure.
template <class T>
T figure(const Erratum& entry, const std::string& label, const std::string& measure) {
  const auto& [what, measures, lines] = entry.figures;
  for (const FigureLine& line : lines) {
    for (std::size_t c = 0; c < measures.size(); ++c) {
      if (!line.label.starts_with(label) || measures[c].name != measure) continue;
      REQUIRE(std::holds_alternative<T>(line.figures[c]));
      return std::get<T>(line.figures[c]);
    }
  }
  FAIL("no " << measure << " of " << label);
  return {};
}
std::int64_t whole(const Erratum& entry, const std::string& label, const std::string& measure) {
  return figure<std::int64_t>(entry, label, measure);
}
std::string mb(const Erratum& entry, const std::string& label, const std::string& measure) {
  return megabytes(whole(entry, label, measure));
}
std::string real(const Erratum& entry, const std::string& label, const std::string& measure,
                 int decimals = 2) {
  return fixed(figure<double>(entry, label, measure), decimals);
}

Outcome run(const std::vector<std::string>& arguments) {
  const Subcommand subcommands[] = {ledger_subcommand(), errata_subcommand(errata)};
  return run_subcommand("ch28", "Chapter 28", subcommands, arguments);
}

std::string printed(const std::vector<std::string>& arguments) {
  const Outcome outcome = run(arguments);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  return outcome.out;
}

}  // namespace

TEST_CASE("the chapter's errata are all there, in order, each with figures", "[errata]") {
  std::vector<int> numbers;
  for (const Erratum& entry : errata()) {
    numbers.push_back(entry.number);
    INFO(entry.number);
    CHECK_FALSE(entry.figures.lines.empty());
    for (const FigureLine& line : entry.figures.lines) {
      CHECK(line.figures.size() == entry.figures.measures.size());
    }
  }
  CHECK(numbers == std::vector<int>{7, 12, 13, 14, 15, 16, 17, 18, 20, 22, 23});
}

TEST_CASE("7: at half width the ideal is 65.67 MB", "[errata]") {
  const Erratum entry = erratum(7);
  CHECK(mb(entry, "the ideal", "full width") == "67.76");
  CHECK(mb(entry, "the ideal", "half width") == "65.67");
  CHECK(mb(entry, "A", "full width") == "315.23");
  CHECK(whole(entry, "A", "half width") == 315228160 - 4096 * 40 * 512);
}

TEST_CASE("12: with the weights that a block needs A moves 273.29 MB, B 89.78, C as before",
          "[errata]") {
  const Erratum entry = erratum(12);
  CHECK(mb(entry, "A", "those it needs") == "273.29");
  CHECK(real(entry, "A", "right vs ideal") == "4.03");
  CHECK(mb(entry, "B", "those it needs") == "89.78");
  CHECK(real(entry, "B", "right vs ideal") == "1.32");
  CHECK(whole(entry, "C", "those it needs") == whole(entry, "C", "both weights"));
  CHECK(real(entry, "A", "vs ideal") == "4.65");
}

TEST_CASE("13: blocks of 7 rows read 6.571 tables a token, blocks of 64 rows 1.5", "[errata]") {
  const Erratum entry = erratum(13);
  CHECK(real(entry, "7", "reads a token, book", 3) == "6.000");
  CHECK(real(entry, "7", "right", 3) == "6.571");
  CHECK(whole(entry, "7", "grid, flat") == 23406);
  CHECK(whole(entry, "7", "grid, aligned") == 24576);
  CHECK(real(entry, "64", "reads a token, book", 3) == "1.000");
  CHECK(real(entry, "64", "right", 3) == "1.500");
  CHECK(real(entry, "8", "right", 3) == real(entry, "8", "reads a token, book", 3));
}

TEST_CASE("14: a block of 64 rows holds two weights and three tokens' tables", "[errata]") {
  const Erratum entry = erratum(14);
  const std::string all = "with weights and each token's table";
  CHECK(whole(entry, "B, 64", "book") == 64 * 128 * 7 + 64 * 4 + 1024);
  CHECK(whole(entry, "B, 64", all) == 64 * 128 * 7 + 64 * 4 + 3 * 1024 + 2 * 256);
  CHECK(whole(entry, "B, 64", "exact") == 59648);
  CHECK(whole(entry, "A", all) == 1924 + 256);
  CHECK(whole(entry, "C", "exact") == 37024);
}

TEST_CASE("15: C runs in 7 waves where an SM has 192 KB, in 6 on an H200, never in 4", "[errata]") {
  const Erratum entry = erratum(15);
  CHECK(whole(entry, "whatever", "waves") == 4);
  CHECK(whole(entry, "C in an SM of 192 KB", "resident blocks an SM") == 5);
  CHECK(whole(entry, "C in an SM of 192 KB", "waves") == 7);
  CHECK(whole(entry, "C in an SM of one", "resident blocks an SM") == 6);
  CHECK(whole(entry, "C in an SM of one", "waves") == 6);
}

TEST_CASE("16: behind an L2 every design leaves DRAM the ideal bytes", "[errata]") {
  const Erratum entry = erratum(16);
  const std::int64_t ideal = operator_ledger({}, Convention::exact).ideal_bytes;
  for (const char* design : {"A", "B", "C"}) {
    CHECK(whole(entry, design, "then at DRAM") == ideal);
    CHECK(whole(entry, design, "by block") > ideal);
    CHECK(whole(entry, design, "has to stay in the L2") <
          whole(entry, "L2", "has to stay in the L2"));
  }
}

TEST_CASE("17: the roof is 17.03 us at the triad's rate and about 20 us at the copy's",
          "[errata]") {
  const Erratum entry = erratum(17);
  CHECK(real(entry, "the book's", "memory roof", 3) == "15.051");
  CHECK(real(entry, "triad", "memory roof") == "17.03");
  CHECK(real(entry, "copy", "memory roof", 0) == "20");
  CHECK_THAT(entry.right, StartsWith("The operator reads 2.13 bytes for each that it writes"));
}

TEST_CASE("18: the answers are those that the ledger gives", "[errata]") {
  const Erratum entry = erratum(18);
  int refused = 0;
  for (const FigureLine& line : entry.figures.lines) {
    std::vector<std::string> arguments = {"ledger"};
    std::istringstream words(line.label);
    for (std::string word; words >> word;) arguments.push_back(word);
    const Outcome outcome = run(arguments);
    const std::string& said = std::get<std::string>(line.figures[0]);
    INFO(line.label);
    CHECK_THAT(said, StartsWith(std::to_string(outcome.exit_code) + ", "));
    if (outcome.exit_code != 2) continue;
    ++refused;
    CHECK(outcome.out.empty());
    CHECK(outcome.err == "ch28: " + said.substr(3) + "\n");
  }
  CHECK(refused == 11);
  CHECK(figure<std::string>(entry, "--q-heads 0", "exit code and answer").starts_with("2, "));
  CHECK(run({"ledger", "--q-heads", "0"}).exit_code == 0);
  CHECK(figure<std::string>(entry, "--on-chip-kb 8", "exit code and answer") ==
        "1, accepted, designs over budget");
}

TEST_CASE("20: every intermediate of the unfused plan fits an L2", "[errata]") {
  const Erratum entry = erratum(20);
  CHECK(whole(entry, "largest", "size") == 4096 * 40 * 128 * 2);
  CHECK(whole(entry, "largest", "size") < whole(entry, "L2", "size"));
  CHECK(whole(entry, "least", "size") < whole(entry, "unfused", "size"));
}

TEST_CASE("22: by this chapter's rule chapter 13's RMSNorm would move 100.66 MB", "[errata]") {
  const Erratum entry = erratum(22);
  CHECK(mb(entry, "chapter 13's rms_norm, w once a block", "total") == "100.66");
  CHECK(mb(entry, "chapter 13's rms_norm, w once a call", "total") == "67.12");
  CHECK(whole(entry, "A, weights once a call", "total") == 189399040 - 4096 * 40 * 256 + 512);
}

TEST_CASE("23: with 64 rows a block B moves 69.07 MB, less than C's 69.86", "[errata]") {
  const Erratum entry = erratum(23);
  CHECK(mb(entry, "64", "B") == "69.07");
  CHECK(mb(entry, "64", "C") == "69.86");
  CHECK(figure<std::string>(entry, "64", "least traffic") == "B");
  CHECK(figure<std::string>(entry, "8", "least traffic") == "C");
  CHECK_THAT(printed({"ledger", "--rows-per-block", "64"}), ContainsSubstring("that fit: B,"));
}

TEST_CASE("the errata as JSON hold every figure", "[errata]") {
  const ordered_json entries = ordered_json::parse(printed({"errata", "--json"})).at("errata");
  const std::vector<Erratum> all = errata();
  REQUIRE(entries.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(all[i].number);
    CHECK(entries[i].at("number") == all[i].number);
    for (const ordered_json& line : entries[i].at("figures")) {
      CHECK(line.size() == 1 + all[i].figures.measures.size());  // no two share a field
    }
  }
}

TEST_CASE("the errata page shows what the program prints", "[errata]") {
  std::ifstream file(std::string(OPBOOK_TEST_DIR) + "/../ERRATA.md");
  std::stringstream page;
  page << file.rdbuf();
  const std::string block = "<!-- run: ch28 errata -->\n```text\n" + printed({"errata"}) + "```\n";
  CHECK(page.str().find(block) != std::string::npos);
}

}  // namespace opbook::ch28
