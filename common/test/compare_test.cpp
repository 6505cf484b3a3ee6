#include "common/compare.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/compare_command.hpp"
#include "common/error.hpp"
#include "common/files.hpp"
#include "common/npy.hpp"
#include "common/test/temporary_folder.hpp"

namespace opbook {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Message;
using nlohmann::json;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr float float_nan = std::numeric_limits<float>::quiet_NaN();

ResultRow row(const std::string& op, const Bounded& share,
              std::vector<std::int64_t> shape = {4096, 4096}) {
  ResultRow row;
  row.op = op;
  row.shape = std::move(shape);
  row.dtype = "float32";
  row.plan = "fused";
  row.device = "cpu";
  row.temperature = "cold";
  row.share_of_roof = share.median;
  row.share_lo = share.low;
  row.share_hi = share.high;
  return row;
}

constexpr Bounded tight = {0.90, 0.89, 0.91};
constexpr Bounded lower = {0.80, 0.79, 0.81};

Results results(std::vector<ResultRow> rows) {
  Results results;
  results.machine.name = "A CPU that nobody has";
  results.machine.device = "cpu";
  results.rows = std::move(rows);
  return results;
}

/// The one verdict on two results of one row each.
Change verdict(const Bounded& mine, const Bounded& recorded) {
  return compare_results(results({row("rope", mine)}), results({row("rope", recorded)}))
      .rows.at(0)
      .change;
}

Outcome compare(std::vector<std::string> arguments) {
  const Subcommand subcommands[] = {compare_subcommand()};
  arguments.insert(arguments.begin(), "compare");
  return run_subcommand("opbook", "", subcommands, arguments);
}

/// Files of results and outputs, and what `compare` says of them.
struct Shelf {
  TemporaryFolder folder;

  std::string keep(const std::string& name, const Results& results) const {
    write_results(folder.path() / name, results);
    return (folder.path() / name).string();
  }
  std::string keep(const std::string& name, const std::vector<float>& values,
                   std::vector<std::int64_t> shape) const {
    Array array(name, Dtype::float32, std::move(shape));
    std::copy(values.begin(), values.end(), array.data<float>());
    save_npy(folder.path() / name, array);
    return (folder.path() / name).string();
  }
};

/// Exit code 2, nothing on stdout, one line on stderr; returns the line.
std::string refusal(const std::vector<std::string>& arguments) {
  const Outcome outcome = compare(arguments);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  return outcome.err;
}

}  // namespace

// --- the rule
// -------------------------------------------------------------------------------------

TEST_CASE("disjoint intervals whose medians differ by over 2 % are FASTER or SLOWER", "[compare]") {
  CHECK(verdict(tight, lower) == Change::faster);
  CHECK(verdict(lower, tight) == Change::slower);
  // However wide: that they are disjoint is enough.
  CHECK(verdict({0.9, 0.7, 2.0}, {0.5, 0.1, 0.69}) == Change::faster);
  CHECK(verdict({0.5, 0.1, 0.69}, {0.9, 0.7, 2.0}) == Change::slower);
  // Just over 2 % of the recorded median.
  CHECK(verdict({1.021, 1.02, 1.022}, {1.0, 0.999, 1.001}) == Change::faster);
  CHECK(verdict({0.979, 0.978, 0.98}, {1.0, 0.999, 1.001}) == Change::slower);
  CHECK(verdict({0.515, 0.514, 0.516}, {0.500, 0.499, 0.501}) == Change::faster);
}

TEST_CASE("medians within 2 % and narrow intervals are SAME, disjoint or not", "[compare]") {
  CHECK(verdict(tight, tight) == Change::same);
  CHECK(verdict({1.019, 1.018, 1.02}, {1.0, 0.999, 1.001}) == Change::same);
  CHECK(verdict({0.981, 0.98, 0.982}, {1.0, 0.999, 1.001}) == Change::same);
  CHECK(verdict({1.0, 0.976, 1.025}, {1.0, 0.976, 1.025}) == Change::same);
}

TEST_CASE("what the intervals do not decide is AMBIGUOUS", "[compare]") {
  // Medians agree, but one side or the other is 5 % wide or more, of its own median.
  CHECK(verdict({1.0, 0.974, 1.025}, {1.0, 0.99, 1.01}) == Change::ambiguous);
  CHECK(verdict({1.0, 0.99, 1.01}, {1.0, 0.974, 1.025}) == Change::ambiguous);
  CHECK(verdict({0.10, 0.09, 0.11}, {0.10, 0.09, 0.11}) == Change::ambiguous);
  // Medians differ, but the intervals overlap or touch.
  CHECK(verdict({0.93, 0.91, 0.95}, {0.90, 0.89, 0.92}) == Change::ambiguous);
  CHECK(verdict({0.93, 0.91, 0.95}, {0.90, 0.89, 0.91}) == Change::ambiguous);
  CHECK(verdict({0.87, 0.86, 0.89}, {0.90, 0.89, 0.91}) == Change::ambiguous);
}

TEST_CASE("a share that was not measured is AMBIGUOUS, never SAME", "[compare]") {
  const Bounded broken = GENERATE(values<Bounded>(
      {{nan, 0.89, 0.91}, {0.90, nan, 0.91}, {0.90, 0.89, nan}, {nan, nan, nan}, {0.0, 0.0, 0.0}}));
  CHECK(verdict(broken, broken) == Change::ambiguous);
  if (broken.median != 0) {
    CHECK(verdict(broken, lower) == Change::ambiguous);
    CHECK(verdict(lower, broken) == Change::ambiguous);
  }
}

TEST_CASE("a share outside its own bounds decides nothing", "[compare]") {
  const Bounded broken =
      GENERATE(values<Bounded>({{0.9, 0.91, 0.89}, {0.9, 0.91, 0.92}, {0.9, 0.88, 0.89}}));
  CHECK(verdict(broken, tight) == Change::ambiguous);
  CHECK(verdict(lower, broken) == Change::ambiguous);
}

// --- pairing
// --------------------------------------------------------------------------------------

TEST_CASE("rows pair by all that names a measurement, in any order", "[compare]") {
  ResultRow half = row("rope", lower);
  half.dtype = "float16";
  const Comparison comparison =
      compare_results(results({row("rope", tight), half}), results({half, row("rope", lower)}));
  REQUIRE(comparison.rows.size() == 2);
  CHECK(comparison.rows[0].change == Change::faster);
  CHECK(comparison.rows[1].change == Change::same);
  CHECK(comparison.only_mine.empty());
  CHECK(comparison.only_recorded.empty());
}

TEST_CASE("rows that differ in more than their shape stay apart", "[compare]") {
  std::string ResultRow::* const field =
      GENERATE(&ResultRow::op, &ResultRow::dtype, &ResultRow::plan, &ResultRow::device,
               &ResultRow::temperature, &ResultRow::roof);
  ResultRow other = row("rope", tight);
  other.*field = "another";
  const Comparison comparison = compare_results(results({row("rope", tight)}), results({other}));
  CHECK(comparison.rows.empty());
  REQUIRE(comparison.only_mine.size() == 1);
  REQUIRE(comparison.only_recorded.size() == 1);
  CHECK(comparison.only_recorded[0].*field == "another");
}

TEST_CASE("another shape pairs where it is the only one on each side", "[compare]") {
  const Comparison comparison = compare_results(results({row("rope", tight, {8, 64})}),
                                                results({row("rope", lower, {16, 64})}));
  REQUIRE(comparison.rows.size() == 1);
  CHECK(comparison.rows[0].change == Change::faster);
}

TEST_CASE("where there are several shapes only equal ones pair", "[compare]") {
  const Results several = results({row("rope", tight, {8, 64}), row("rope", tight, {16, 64})});
  const Results one = results({row("rope", tight, {32, 64})});
  CHECK(compare_results(several, one).rows.empty());
  CHECK(compare_results(one, several).rows.empty());
  CHECK(compare_results(one, several).only_recorded.size() == 2);

  const Comparison comparison =
      compare_results(several, results({row("rope", tight, {8, 64}), row("rope", tight, {4, 64})}));
  REQUIRE(comparison.rows.size() == 1);
  CHECK(comparison.rows[0].recorded.shape == std::vector<std::int64_t>{8, 64});
  CHECK(comparison.only_mine.size() == 1);
  CHECK(comparison.only_recorded.size() == 1);
}

TEST_CASE("the same measurement twice on one side is refused", "[compare]") {
  const Results once = results({row("rope", tight)});
  const Results twice = results({row("rope", tight), row("rope", lower)});
  CHECK_THROWS_MATCHES(compare_results(twice, once), ArgumentError,
                       Message("MINE: rows[1] repeats rows[0], rope float32 fused cpu cold "
                               "[4096, 4096]; allowed: each measurement once"));
  CHECK_THROWS_AS(compare_results(once, twice), ArgumentError);
}

TEST_CASE("a record lies in the folder of its machine", "[compare]") {
  MachineInfo machine;
  machine.name = "NVIDIA H200";
  const std::string path = record_path(machine, "ch13").string();
  CHECK(path.ends_with("/results/nvidia-h200/ch13.json"));
  CHECK(path.starts_with(OPBOOK_SOURCE_DIR));
}

// --- the command on results
// -----------------------------------------------------------------------

TEST_CASE("compare prints a verdict a row and the rows that only one side has", "[compare]") {
  const Shelf shelf;
  const std::string mine =
      shelf.keep("mine.json", results({row("rope", tight, {8, 64}), row("rms_norm", tight)}));
  const std::string recorded = shelf.keep(
      "recorded.json", results({row("rope", lower, {16, 64}), row("layer_norm", tight)}));
  const Outcome outcome = compare({mine, recorded});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  CHECK_THAT(outcome.out, ContainsSubstring("8 x 64 / 16 x 64") &&
                              ContainsSubstring("90.0 [89.0, 91.0]  80.0 [79.0, 81.0]") &&
                              ContainsSubstring("+12.5 %  FASTER\n") &&
                              ContainsSubstring("only in MINE\n") &&
                              ContainsSubstring("only in RECORDED\n") &&
                              ContainsSubstring("0 SAME, 1 FASTER, 0 SLOWER, 0 AMBIGUOUS; 1 only "
                                                "in MINE, 1 only in RECORDED.\n"));
}

TEST_CASE("only SLOWER, and nothing in common, have exit code 1", "[compare]") {
  const Shelf shelf;
  const Bounded wide = {0.85, 0.5, 0.99};
  const auto exit_code = [&](const std::vector<ResultRow>& mine,
                             const std::vector<ResultRow>& recorded) {
    return compare({shelf.keep("a.json", results(mine)), shelf.keep("b.json", results(recorded))})
        .exit_code;
  };
  CHECK(exit_code({row("rope", tight)}, {row("rope", tight)}) == 0);
  CHECK(exit_code({row("rope", tight)}, {row("rope", lower)}) == 0);
  CHECK(exit_code({row("rope", wide)}, {row("rope", tight)}) == 0);
  CHECK(exit_code({row("rope", lower)}, {row("rope", tight)}) == 1);
  CHECK(exit_code({row("scale_add", tight), row("rope", lower)},
                  {row("scale_add", lower), row("rope", tight)}) == 1);
  CHECK(exit_code({row("rope", tight)}, {row("layer_norm", tight)}) == 1);
  CHECK(exit_code({}, {}) == 1);
}

TEST_CASE("what was not measured shows as n/a", "[compare]") {
  const Shelf shelf;
  const std::string file = shelf.keep("a.json", results({row("rope", {nan, nan, nan})}));
  const Outcome outcome = compare({file, file});
  CHECK_THAT(outcome.out,
             ContainsSubstring("n/a [n/a, n/a]") && ContainsSubstring("n/a  AMBIGUOUS"));
}

TEST_CASE("compare --json of results prints JSON alone", "[compare]") {
  const Shelf shelf;
  const std::string mine =
      shelf.keep("mine.json", results({row("rope", lower), row("rms_norm", {nan, nan, nan})}));
  const std::string recorded = shelf.keep("recorded.json", results({row("rope", tight)}));
  const Outcome outcome = compare({mine, recorded, "--json"});
  CHECK(outcome.exit_code == 1);
  const json document = json::parse(outcome.out);
  REQUIRE(document.at("rows").size() == 1);
  CHECK(document["rows"][0].at("verdict") == "SLOWER");
  CHECK(document["rows"][0].at("mine").at("share_of_roof") == 0.8);
  CHECK(document["rows"][0].at("recorded").at("share_lo") == 0.89);
  REQUIRE(document.at("only_mine").size() == 1);
  CHECK(document["only_mine"][0].at("op") == "rms_norm");
  CHECK(document["only_mine"][0].at("share_of_roof").is_null());
  CHECK(document.at("only_recorded").empty());
  CHECK(document.at("mine").at("file") == mine);
}

TEST_CASE("a record that is not there is asked for by its command", "[compare]") {
  const Shelf shelf;
  const std::string line = refusal({shelf.keep("ch13.json", results({row("rope", tight)}))});
  CHECK_THAT(line, ContainsSubstring("RECORDED: left out") &&
                       ContainsSubstring("results/a-cpu-that-nobody-has/ch13.json") &&
                       ContainsSubstring("./book bench ch13 --record"));
  const std::string name = GENERATE(as<std::string>(), "mine.json", "c.json", "chat.json");
  CHECK_THAT(refusal({shelf.keep(name, results({}))}),
             ContainsSubstring("is not named after a chapter"));
}

// --- the command on outputs
// -----------------------------------------------------------------------

TEST_CASE("equal outputs are SAME", "[compare]") {
  const Shelf shelf;
  const std::string a = shelf.keep("a.npy", {1, 2, float_nan, 4}, {2, 2});
  const Outcome outcome = compare({a, a});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  CHECK_THAT(outcome.out, ContainsSubstring("float32 [2, 2]\n") &&
                              ContainsSubstring("SAME: 4 elements, worst 0 ulp"));
  const std::string empty = shelf.keep("empty.npy", {}, {0, 4});
  CHECK(compare({empty, empty}).exit_code == 0);
}

TEST_CASE("outputs that differ show where, by how much, and both values", "[compare]") {
  const Shelf shelf;
  const std::string a = shelf.keep("a.npy", {1, 2, 3, 4, 5, 6}, {2, 3});
  const std::string b = shelf.keep("b.npy", {1, 2, 3.0000005f, 4, float_nan, 6}, {2, 3});
  const Outcome outcome = compare({a, b});
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.err.empty());
  CHECK_THAT(outcome.out,
             ContainsSubstring("DIFFERENT: 2 of 6 elements, worst inf ulp at [1, 1], 0 ulp") &&
                 ContainsSubstring("[0, 2]  3  3.00000048    2\n") &&
                 ContainsSubstring("[1, 1]  5         nan  inf\n"));
}

TEST_CASE("--ulps allows that many representable steps and no NaN", "[compare]") {
  const Shelf shelf;
  const std::string a = shelf.keep("a.npy", {3}, {1});
  const std::string b = shelf.keep("b.npy", {3.0000005f}, {1});
  CHECK(compare({a, b, "--ulps", "1"}).exit_code == 1);
  CHECK(compare({a, b, "--ulps", "2"}).exit_code == 0);
  CHECK_THAT(compare({a, b, "--ulps=2"}).out, ContainsSubstring("worst 2 ulp at [0], 2 ulp"));
  const std::string wrong = shelf.keep("nan.npy", {float_nan}, {1});
  CHECK(compare({wrong, a, "--ulps", "2147483647"}).exit_code == 1);
  CHECK(compare({a, wrong, "--ulps", "2147483647"}).exit_code == 1);
}

TEST_CASE("zeros of either sign differ in their bits alone", "[compare]") {
  const Shelf shelf;
  const std::string a = shelf.keep("a.npy", {0.0f}, {1});
  const std::string b = shelf.keep("b.npy", {-0.0f}, {1});
  const Outcome outcome = compare({a, b});
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.out, ContainsSubstring("equal but for its bits"));
  CHECK(compare({a, b, "--ulps", "1"}).exit_code == 0);
}

TEST_CASE("another shape and another dtype are mismatches, told as such", "[compare]") {
  const Shelf shelf;
  const std::string a = shelf.keep("a.npy", {1, 2}, {2});
  const Outcome shape = compare({a, shelf.keep("b.npy", {1, 2}, {1, 2})});
  CHECK(shape.exit_code == 1);
  CHECK_THAT(shape.out, ContainsSubstring("DIFFERENT: shape: got [2], expected [1, 2]\n"));
  const Array half("half", Dtype::float16, {2});
  save_npy(shelf.folder.path() / "half.npy", half);
  const Outcome dtype = compare({a, (shelf.folder.path() / "half.npy").string()});
  CHECK(dtype.exit_code == 1);
  CHECK_THAT(dtype.out, ContainsSubstring("dtype: got float32, expected float16"));
}

TEST_CASE("--dtype names what bare bits are", "[compare]") {
  const Shelf shelf;
  std::string header = "{'descr': '<u2', 'fortran_order': False, 'shape': (1,)}";
  header.resize(0x75, ' ');
  const std::string start("\x93NUMPY\x01\x00\x76\x00", 10);
  const std::string bits =
      shelf.folder.write("bits.npy", start + header + "\n" + "\x80\x3F").string();
  CHECK_THAT(refusal({bits, bits}), ContainsSubstring("<u2"));
  const Outcome outcome = compare({bits, bits, "--dtype", "bfloat16"});
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("bfloat16 [1]"));
  const std::string a = shelf.keep("a.npy", {1}, {1});
  CHECK_THAT(refusal({a, bits, "--dtype", "bfloat16"}), ContainsSubstring("a.npy"));
}

TEST_CASE("compare --json of outputs prints JSON alone, NaN and Inf as texts", "[compare]") {
  const Shelf shelf;
  const std::string a = shelf.keep("a.npy", {1, float_nan}, {1, 2});
  const std::string b = shelf.keep("b.npy", {1, 2}, {1, 2});
  const Outcome outcome = compare({a, b, "--json", "--ulps", "3"});
  CHECK(outcome.exit_code == 1);
  const json document = json::parse(outcome.out);
  CHECK(document.at("verdict") == "DIFFERENT");
  CHECK(document.at("a") == json{{"file", a}, {"dtype", "float32"}, {"shape", {1, 2}}});
  CHECK(document.at("elements") == 2);
  CHECK(document.at("allowed_ulps") == 3);
  CHECK(document.at("worst_ulps") == "inf");
  CHECK(document.at("worst_index") == json{0, 1});
  CHECK(document.at("mismatches") == 1);
  CHECK(document.at("first") ==
        json{{{"index", {0, 1}}, {"a", "nan"}, {"b", 2.0}, {"ulps", "inf"}}});
  CHECK(json::parse(compare({b, b, "--json"}).out).at("verdict") == "SAME");
}

// --- bad input
// ------------------------------------------------------------------------------------

TEST_CASE("input that cannot be compared has exit code 2 and one line", "[compare]") {
  const Shelf shelf;
  const std::string npy = shelf.keep("a.npy", {1}, {1});
  const std::string good = shelf.keep("good.json", results({row("rope", tight)}));
  const std::string none = (shelf.folder.path() / "none").string();
  json document = json::parse(read_file(good));
  document["schema"] = 2;
  const std::string schema = shelf.folder.write("schema.json", document.dump()).string();
  const std::string damaged = shelf.folder.write("damaged.json", "{").string();
  const std::string short_npy = shelf.folder.write("short.npy", "\x93NUM").string();

  CHECK_THAT(refusal({}), ContainsSubstring("MINE: missing"));
  CHECK_THAT(refusal({""}), ContainsSubstring("MINE: got \"\""));
  CHECK_THAT(refusal({npy}), ContainsSubstring("B: missing"));
  CHECK_THAT(refusal({npy, good}), ContainsSubstring("allowed: a .npy file, as MINE is"));
  CHECK_THAT(refusal({good, npy}), ContainsSubstring("allowed: a .json file, as MINE is"));
  CHECK_THAT(refusal({npy, "b.txt"}),
             ContainsSubstring("RECORDED: got \"b.txt\"; allowed: a .json"));
  CHECK_THAT(refusal({"npy", npy}), ContainsSubstring("MINE: got \"npy\""));
  CHECK_THAT(refusal({good, good, good}), ContainsSubstring("got \"" + good + "\""));
  CHECK_THAT(refusal({none + ".json", good}), ContainsSubstring("none.json: no such file"));
  CHECK_THAT(refusal({good, none + ".json"}), ContainsSubstring("none.json: no such file"));
  CHECK_THAT(refusal({npy, none + ".npy"}), ContainsSubstring("none.npy: no such file"));
  CHECK_THAT(refusal({good, schema}), ContainsSubstring("schema: got 2; allowed: 1"));
  CHECK_THAT(refusal({damaged, good}), ContainsSubstring("is not JSON"));
  CHECK_THAT(refusal({npy, short_npy}), ContainsSubstring("is no .npy file"));
  CHECK_THAT(refusal({good, good, "--ulps", "1"}), ContainsSubstring("--ulps: given with results"));
  CHECK_THAT(refusal({good, good, "--dtype", "float16"}), ContainsSubstring("--dtype: given with"));
  CHECK_THAT(refusal({npy, npy, "--dtype", "half"}), ContainsSubstring("--dtype: got \"half\""));
}

TEST_CASE("--ulps is a whole number from zero up", "[compare]") {
  const Shelf shelf;
  const std::string npy = shelf.keep("a.npy", {1}, {1});
  CHECK(compare({npy, npy, "--ulps", "0"}).exit_code == 0);
  CHECK(compare({npy, npy, "--ulps", "2147483647"}).exit_code == 0);
  const std::string text = GENERATE(as<std::string>(), "", "-1", "+1", " 1", "1 ", "1.5", "1e3",
                                    "0x1", "nan", "one", "2147483648", "-0", "00", "01");
  CHECK_THAT(refusal({npy, npy, "--ulps", text}),
             ContainsSubstring("--ulps: got \"" + text + "\"; allowed: "));
}

}  // namespace opbook
