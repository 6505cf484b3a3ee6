#include "common/errata_command.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "ch13_norm_rope/errata.hpp"

namespace opbook::ch13 {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::ordered_json;

Outcome run(const std::vector<std::string>& arguments) {
  const Subcommand subcommands[] = {errata_subcommand(errata)};
  return run_subcommand("ch13", "Chapter 13", subcommands, arguments);
}

std::string printed(const std::vector<std::string>& arguments) {
  const Outcome outcome = run(arguments);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  return outcome.out;
}

}  // namespace

TEST_CASE("the errata as JSON hold every figure, in bytes and FLOPs to the last one",
          "[errata_command]") {
  const ordered_json entries = ordered_json::parse(printed({"errata", "--json"})).at("errata");
  const std::vector<Erratum> all = errata();
  REQUIRE(entries.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(all[i].number);
    CHECK(entries[i].at("number") == all[i].number);
    CHECK(entries[i].at("title") == all[i].title);
    REQUIRE(entries[i].at("figures").size() == all[i].figures.lines.size());
    for (const ordered_json& line : entries[i].at("figures")) {
      CHECK(line.size() == 1 + all[i].figures.measures.size());  // no two share a field
    }
  }
  const ordered_json listed = entries[1].at("figures")[1];
  CHECK(listed.dump() ==
        R"({"label":"kernel as listed, the book's unfused plan","unfused_bytes":185622528,)"
        R"("fused_bytes":85467136,"ratio":2.1718585258314964})");
  const ordered_json stats = entries[4].at("figures")[3];
  CHECK(stats.dump() ==
        R"({"label":"stats","book_bytes":null,"right_bytes":65536,"book_flops":null,)"
        R"("right_flops":24576})");
}

TEST_CASE("an erratum is printed with both statements and its figures", "[errata_command]") {
  CHECK_THAT(printed({"errata"}), ContainsSubstring(R"(
 3. Fusing does not save q

    Book:  Fusing the quantisation saves writing q.
    Right: It saves normed and rotated, each written by one kernel and read by the next. q is
           written either way.

    tensor       unfused MB  fused MB  saved MB
    -----------  ----------  --------  --------
    normed            67.11      0.00     67.11
    rotated           67.11      0.00     67.11
    q                 16.78     16.78      0.00
    all tensors      185.62     51.40    134.22

)"));
}

TEST_CASE("the errata page shows what the program prints", "[errata_command]") {
  std::ifstream file(std::string(OPBOOK_TEST_DIR) + "/../ERRATA.md");
  std::stringstream page;
  page << file.rdbuf();
  const std::string block = "<!-- run: ch13 errata -->\n```text\n" + printed({"errata"}) + "```\n";
  CHECK(page.str().find(block) != std::string::npos);
}

TEST_CASE("errata takes no flag but --json", "[errata_command]") {
  const Outcome outcome = run({"errata", "--op", "rope"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, ContainsSubstring("--op"));
}

}  // namespace opbook::ch13
