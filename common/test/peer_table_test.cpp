// Ours against other libraries. All figures are made up.

#include "common/peer_table.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "common/chapter.hpp"
#include "common/error.hpp"
#include "common/test/temporary_folder.hpp"

namespace opbook {
namespace {

using Catch::Matchers::ContainsSubstring;

ResultRow timed(const std::string& op, const std::string& plan, double share) {
  ResultRow row;
  row.op = op;
  row.shape = {8, 16};
  row.dtype = "bfloat16";
  row.plan = plan;
  row.device = "cuda";
  row.temperature = "cold";
  row.bytes = 1000;
  row.flops = 10;
  row.median_us = row.p25_us = row.p75_us = 1;
  row.n = 11;
  row.gb_per_s = 1;
  row.share_of_roof = share;
  row.share_lo = share - 0.1;
  row.share_hi = share + 0.1;
  return row;
}

ResultRow untimed(const std::string& op, const std::string& plan, const std::string& why) {
  ResultRow row = timed(op, plan, 1);
  row.n = 0;
  row.median_us = row.p25_us = row.p75_us = row.gb_per_s = not_measured;
  row.share_of_roof = row.share_lo = row.share_hi = not_measured;
  row.note = why;
  return row;
}

Results of_a_card(const std::vector<ResultRow>& rows) {
  Results results;
  results.machine.name = "made-up card";
  results.machine.device = "cuda";
  results.rows = rows;
  return results;
}

Results ours() {
  return of_a_card({timed("one", "unfused", 0.4), timed("one", "fused", 0.9),
                    timed("two", "fused", 0.6), timed("three", "fused", 0.5)});
}

Results theirs() {
  return of_a_card({timed("one", "peer: slow", 0.3), timed("one", "peer: fast", 0.6),
                    untimed("two", "peer: slow", "wrong: a test says so"),
                    timed("four", "peer: fast", 0.7)});
}

struct Folder {
  TemporaryFolder temporary;
  std::filesystem::path results = temporary.path() / "ch13_cuda.json";
  std::vector<std::string> operators{"one", "two", "three"};  ///< of the chapter

  Folder() { write_results(results, ours()); }
  void add(const Results& peers) const {
    write_results(temporary.path() / "ch13_peers.json", peers);
  }
  std::string show(const GivenFlags& flags = {}) const {
    GivenFlags given = flags;
    given["--results"] = results.string();
    Chapter chapter;
    chapter.name = "ch13";
    chapter.verification_problems = [this] {
      std::vector<Problem> problems(operators.size());
      for (std::size_t i = 0; i < operators.size(); ++i) problems[i].op = operators[i];
      return problems;
    };
    return show_subcommand(chapter).run(given).out;
  }
};

}  // namespace

TEST_CASE("fused plans stand beside peers, the fastest of which is named", "[peers]") {
  CHECK(render_peers(ours(), theirs()) ==
        "fused against peers, each in % of a copy of the same bytes in its own run:\n"
        "\n"
        "op   dtype     shape   ours  slow  fast  fastest peer     ours / fastest\n"
        "---  --------  ------  ----  ----  ----  ------------  -----------------\n"
        "one  bfloat16  8 x 16  90.0  30.0  60.0  fast          1.50 [1.14, 2.00]\n"
        "two  bfloat16  8 x 16  60.0     -     -  -                             -\n"
        "two bfloat16 8 x 16 slow: wrong: a test says so.\n");
}

TEST_CASE("show takes one of --pairs and --peers", "[peers]") {
  Folder folder;
  folder.add(theirs());
  CHECK_THROWS_AS(folder.show({{"--pairs", ""}, {"--peers", ""}}), ArgumentError);
  CHECK_NOTHROW(folder.show({{"--peers", ""}}));
}

TEST_CASE("show without results, where no bench has run, names bench", "[peers]") {
  Chapter chapter;
  chapter.name = "ch13_that_nobody_benches";
  CHECK_THROWS_WITH(show_subcommand(chapter).run({}),
                    ContainsSubstring("--results: got none") &&
                        ContainsSubstring("./book bench ch13_that_nobody_benches"));
}

TEST_CASE("show refuses results of operators that the chapter does not have", "[peers]") {
  Folder folder;
  CHECK_NOTHROW(folder.show());
  folder.operators = {"one", "two"};
  CHECK_THROWS_WITH(folder.show(),
                    ContainsSubstring("with rows of three; allowed: results of ch13"));
}

TEST_CASE("a design of an operator, in parentheses, is the chapter's as well", "[peers]") {
  Folder folder;
  folder.operators = {"one"};
  write_results(folder.results, of_a_card({timed("one (design A)", "fused", 0.9)}));
  CHECK_NOTHROW(folder.show());
}

TEST_CASE("a cell is one by op, dtype, shape, device, temperature and roof", "[peers]") {
  const auto rendered = [](auto change) {
    ResultRow peer = timed("one", "peer: fast", 0.6);
    change(peer);
    return render_peers(ours(), of_a_card({peer}));
  };
  CHECK_THAT(rendered([](ResultRow&) {}), ContainsSubstring("60.0"));
  CHECK(rendered([](ResultRow& row) { row.op = "four"; }) == "");
  CHECK(rendered([](ResultRow& row) { row.dtype = "float16"; }) == "");
  CHECK(rendered([](ResultRow& row) { row.shape = {16, 8}; }) == "");
  CHECK(rendered([](ResultRow& row) { row.device = "cpu"; }) == "");
  CHECK(rendered([](ResultRow& row) { row.temperature = "hot"; }) == "");
  CHECK(rendered([](ResultRow& row) { row.roof = "one read"; }) == "");
}

TEST_CASE("peers lie beside a record and beside what a bench leaves", "[peers]") {
  CHECK(peers_path("a/ch13.json") == "a/ch13_peers.json");
  CHECK(peers_path("a/ch13_cuda.json") == "a/ch13_peers.json");
}

TEST_CASE("show ends with the peers where there are any of the same machine", "[peers]") {
  const Folder folder;
  const std::string alone = folder.show();
  folder.add(theirs());
  CHECK(folder.show() == alone + "\n" + render_peers(ours(), theirs()));
  CHECK_THAT(folder.show({{"--pairs", ""}}), !ContainsSubstring("fastest"));
  Results others = theirs();
  others.machine.name = "another card";
  folder.add(others);
  CHECK(folder.show() == alone);
}

TEST_CASE("show --peers is their table alone, and an error where there is none", "[peers]") {
  const Folder folder;
  CHECK_THROWS_AS(folder.show({{"--peers", ""}}), ArgumentError);
  folder.add(theirs());
  CHECK(folder.show({{"--peers", ""}}) == render_peers(ours(), theirs()));
  folder.add(of_a_card({timed("four", "peer: fast", 0.7)}));
  CHECK_THROWS_AS(folder.show({{"--peers", ""}}), ArgumentError);
  folder.temporary.write("ch13_peers.json", "{");
  CHECK_THROWS_AS(folder.show(), ArgumentError);
}

}  // namespace opbook
