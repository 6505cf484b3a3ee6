#include "ch13_norm_rope/errata.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ch13_norm_rope/ledger_command.hpp"
#include "ch13_norm_rope/operators.hpp"
#include "common/array.hpp"
#include "common/errata_command.hpp"
#include "common/machine.hpp"
#include "common/table.hpp"
#include "common/verify.hpp"

namespace opbook::ch13 {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using nlohmann::ordered_json;

// The book's default sizes, for figures made by hand. All tensors but the norms' statistics and
// float8 codes are of 16 bits.
constexpr std::int64_t m = 4096;
constexpr std::int64_t n = 4096;
constexpr std::int64_t rd = 128;
constexpr std::int64_t e = 2;
constexpr std::int64_t mn = m * n;

Erratum erratum(int number) {
  for (Erratum& entry : errata()) {
    if (entry.number == number) return entry;
  }
  FAIL("no erratum " << number);
  return {};
}

/// One figure, by its label and the measure it is in.
template <class T>
T figure(const Erratum& entry, const std::string& label, const std::string& name, Unit unit) {
  const auto& [what, measures, lines] = entry.figures;
  for (const FigureLine& line : lines) {
    for (std::size_t c = 0; c < measures.size(); ++c) {
      if (line.label == label && measures[c].name == name && measures[c].unit == unit) {
        REQUIRE(std::holds_alternative<T>(line.figures[c]));
        return std::get<T>(line.figures[c]);
      }
    }
  }
  FAIL("no " << name << " of " << label);
  return {};
}

std::int64_t moved(const Erratum& entry, const std::string& label, const std::string& plan) {
  return figure<std::int64_t>(entry, label, plan, Unit::megabytes);
}
std::string mb(const Erratum& entry, const std::string& label, const std::string& plan) {
  return megabytes(moved(entry, label, plan));
}
std::string ratio(const Erratum& entry, const std::string& label) {
  return fixed(figure<double>(entry, label, "ratio", Unit::ratio), 2);
}
std::int64_t flops(const Erratum& entry, const std::string& kernel, const std::string& whose) {
  return figure<std::int64_t>(entry, kernel, whose, Unit::flop);
}
std::int64_t bytes(const Erratum& entry, const std::string& kernel, const std::string& whose) {
  return figure<std::int64_t>(entry, kernel, whose, Unit::bytes);
}
std::string answer(const Erratum& entry, const std::string& label) {
  return figure<std::string>(entry, label, "answer", Unit::text);
}

Outcome run(const std::vector<std::string>& arguments) {
  const Subcommand subcommands[] = {ledger_subcommand(), errata_subcommand(errata)};
  return run_subcommand("ch13", "Chapter 13", subcommands, arguments);
}

std::string printed(const std::vector<std::string>& arguments) {
  const Outcome outcome = run(arguments);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  return outcome.out;
}

/// What norm_rope_quant's ledger does with "--flag value", as a reader types it; the entry must say
/// the same.
Outcome tried(const Erratum& entry, const std::string& flag, const std::string& value) {
  const Outcome outcome = run({"ledger", "--op", "norm_rope_quant", flag, value});
  const std::string said = answer(entry, flag + " " + value);
  if (outcome.exit_code == 0) {
    CHECK(said == "accepted");
  } else {
    CHECK(outcome.err == "ch13: " + said + "\n");
  }
  return outcome;
}

void check_refused(const Erratum& entry, const std::string& flag, const std::string& value) {
  const Outcome outcome = tried(entry, flag, value);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err,
             StartsWith("ch13: " + flag + ": got ") && ContainsSubstring("; allowed: "));
}

}  // namespace

TEST_CASE("erratum 1: scales per token and per group differ in shape", "[errata]") {
  const Erratum entry = erratum(1);
  const std::string token = "text and reference: per token";
  const std::string group = "kernel: per group of 128";
  CHECK(figure<std::string>(entry, token, "shape", Unit::text) == "[4096]");
  CHECK(figure<std::string>(entry, group, "shape", Unit::text) == "[4096, 32]");
  CHECK(figure<std::int64_t>(entry, token, "elements", Unit::count) == m);
  CHECK(figure<std::int64_t>(entry, group, "elements", Unit::count) == m * n / 128);
  CHECK(bytes(entry, token, "size") == 4 * m);
  CHECK(bytes(entry, group, "size") == 4 * m * n / 128);
}

TEST_CASE("erratum 1: held against each other, the two scales fail by their shapes", "[errata]") {
  const auto ones = [](std::vector<std::int64_t> shape) {
    Array scale("scale", Dtype::float32, std::move(shape));
    for (std::int64_t i = 0; i < scale.elements(); ++i) scale.data<float>()[i] = 1;
    return scale;
  };
  // The demo's 256 rows. With one group a row, even the elements agree in number and in value.
  const Array per_token = ones({256});
  CHECK(compare_bits(per_token, ones({256})).pass);
  for (const std::int64_t groups : {1, 32}) {
    const Verdict verdict = compare_bits(per_token, ones({256, groups}));
    CHECK_FALSE(verdict.pass);
    CHECK_THAT(verdict.problem, ContainsSubstring("shape"));
  }
}

TEST_CASE("erratum 2: the kernel as listed moves 85.47 MB, not 51.40", "[errata]") {
  const Erratum entry = erratum(2);
  CHECK(mb(entry, "the book's ledger", "unfused") == "185.62");
  CHECK(mb(entry, "the book's ledger", "fused") == "51.40");
  CHECK(ratio(entry, "the book's ledger") == "3.61");

  const std::string against_book = "kernel as listed, the book's unfused plan";
  CHECK(mb(entry, against_book, "unfused") == "185.62");
  CHECK(mb(entry, against_book, "fused") == "85.47");
  CHECK(ratio(entry, against_book) == "2.17");
  // x and y, w, cos and sin, q, a float32 scale for each 128 columns.
  CHECK(moved(entry, against_book, "fused") == 2 * mn * e + n * e + m * rd * e + mn + 4 * mn / 128);

  const std::string against_groups = "kernel as listed, group scales in both plans";
  CHECK(mb(entry, against_groups, "unfused") == "186.13");
  CHECK(mb(entry, against_groups, "fused") == "85.47");
  CHECK(ratio(entry, against_groups) == "2.18");

  CHECK(mb(entry, "no y, a scale per token, exact", "fused") == "51.40");
  CHECK(ratio(entry, "no y, a scale per token, exact") == "3.61");
}

TEST_CASE("erratum 3: fusing saves normed and rotated, and q is written either way", "[errata]") {
  const Erratum entry = erratum(3);
  for (const char* tensor : {"normed", "rotated"}) {
    CHECK(moved(entry, tensor, "unfused") == 2 * mn * e);  // written, then read
    CHECK(moved(entry, tensor, "fused") == 0);
  }
  CHECK(moved(entry, "q", "unfused") == mn);
  CHECK(moved(entry, "q", "fused") == mn);
  CHECK(moved(entry, "q", "saved") == 0);
  CHECK(moved(entry, "all tensors", "saved") ==
        moved(entry, "normed", "saved") + moved(entry, "rotated", "saved"));
  CHECK(mb(entry, "all tensors", "unfused") == "185.62");
  CHECK(mb(entry, "all tensors", "fused") == "51.40");
}

TEST_CASE("erratum 4: rd = n is taken, rd > n and rd = 0 are refused", "[errata]") {
  const Erratum entry = erratum(4);
  CHECK(tried(entry, "--rope-dim", "4096").exit_code == 0);
  check_refused(entry, "--rope-dim", "4098");
  check_refused(entry, "--rope-dim", "0");
}

TEST_CASE("erratum 5: layer_norm's fused count lacks the square, its unfused plan the statistics",
          "[errata]") {
  const Erratum entry = erratum(5);
  // The book: of what the unfused plan does, the fused one leaves out mn, and adds 2m.
  CHECK(flops(entry, "unfused, all", "book") == 7 * mn);
  CHECK(flops(entry, "fused", "book") == 6 * mn + 2 * m);
  CHECK(flops(entry, "x2", "book") == mn);
  CHECK(bytes(entry, "centered", "book") == 2 * mn * e);
  CHECK(bytes(entry, "scaled", "book") == 2 * mn * e);
  for (const FigureLine& line : entry.figures.lines) {
    const bool blank = std::holds_alternative<std::monostate>(line.figures.front());
    CHECK(blank == (line.label == "stats"));
  }
  // What is right: mean and rstd are made of the sums, and read, 4m bytes each time.
  CHECK(flops(entry, "stats", "right") == 6 * m);
  CHECK(bytes(entry, "stats", "right") == 4 * 4 * m);
  const std::int64_t read = bytes(entry, "centered", "right") + bytes(entry, "scaled", "right") -
                            bytes(entry, "centered", "book") - bytes(entry, "scaled", "book");
  CHECK(read == 2 * 4 * m);
  CHECK(flops(entry, "unfused, all", "right") == 7 * mn + 6 * m);
  CHECK(flops(entry, "fused", "right") == 8 * mn + 4 * m);
  CHECK(megabytes(bytes(entry, "unfused, all", "book")) == "335.59");
  CHECK(bytes(entry, "fused", "right") == bytes(entry, "fused", "book"));
}

TEST_CASE("erratum 6: rms_norm's totals agree though neither plan counts all", "[errata]") {
  const Erratum entry = erratum(6);
  CHECK(flops(entry, "unfused, all", "book") == flops(entry, "fused", "book"));
  CHECK(flops(entry, "fused", "book") == 4 * mn + 2 * m);
  CHECK(flops(entry, "mean_eps", "book") == m);
  CHECK(flops(entry, "mean", "book") == mn);  // the sum alone
  CHECK(flops(entry, "mean", "right") == mn + m);
  CHECK(flops(entry, "unfused, all", "right") == 4 * mn + 3 * m);
  CHECK(flops(entry, "fused", "right") == 4 * mn + 3 * m);
  CHECK(bytes(entry, "unfused, all", "right") == bytes(entry, "unfused, all", "book"));
  CHECK(bytes(entry, "fused", "right") == bytes(entry, "fused", "book"));
}

TEST_CASE("erratum 7: rope gains 4.45x, not 3.67x, once tables belong to the token", "[errata]") {
  const Erratum entry = erratum(7);
  const std::string as_printed = "by head, full width against half: the book's";
  CHECK(mb(entry, as_printed, "unfused") == "369.10");
  CHECK(mb(entry, as_printed, "fused") == "100.66");
  CHECK(ratio(entry, as_printed) == "3.67");
  CHECK(ratio(entry, "by head, half width in both") == "3.33");
  CHECK(ratio(entry, "by head, full width in both") == "2.75");
  // Each plan of the book's is one of those two.
  CHECK(moved(entry, "by head, half width in both", "fused") == moved(entry, as_printed, "fused"));
  CHECK(moved(entry, "by head, full width in both", "unfused") ==
        moved(entry, as_printed, "unfused"));

  const std::string right = "by token, half width in both: exact";
  CHECK(mb(entry, right, "unfused") == "303.04");
  CHECK(mb(entry, right, "fused") == "68.16");
  CHECK(ratio(entry, right) == "4.45");
  const std::int64_t tokens = 4096, heads = 32;
  CHECK(moved(entry, right, "fused") == 2 * tokens * heads * rd * e + tokens * rd * e);
}

TEST_CASE("erratum 8: the ranges are computed, and move with the cases", "[errata]") {
  const Erratum entry = erratum(8);
  const auto range = [&](const std::string& label) {
    const auto value = [&](const char* name, Unit unit) {
      return fixed(figure<double>(entry, label, name, unit), unit == Unit::ratio ? 2 : 3);
    };
    return std::vector<std::string>{
        value("least ratio", Unit::ratio), value("greatest ratio", Unit::ratio),
        value("least AI", Unit::flop_per_byte), value("greatest AI", Unit::flop_per_byte)};
  };
  const auto book = range("the book's sizes, book convention");
  CHECK(book == std::vector<std::string>{"1.67", "5.00", "0.100", "2.315"});
  std::set<std::vector<std::string>> ranges;
  for (const FigureLine& line : entry.figures.lines) ranges.insert(range(line.label));
  CHECK(ranges.size() == entry.figures.lines.size());

  // The table closes with what was computed, under either convention.
  for (const std::string convention : {"book", "exact"}) {
    const auto computed = range("the book's sizes, " + convention + " convention");
    CHECK_THAT(printed({"ledger", "--convention", convention}),
               ContainsSubstring("AI of the 10 plans: " + computed[2] + " to " + computed[3]));
  }
}

TEST_CASE("erratum 9: with --json there is one JSON value on stdout and nothing else", "[errata]") {
  const std::vector<std::vector<std::string>> commands = {
      {"ledger", "--json"},
      {"ledger", "--json", "--convention", "exact", "--machine", "h200"},
      {"ledger", "--json", "--op", "norm_rope_quant"},
      {"errata", "--json"}};
  for (const auto& command : commands) {
    const std::string out = printed(command);
    CHECK(ordered_json::parse(out).dump(2) + "\n" == out);  // parse() takes nothing beside it
  }
  const Outcome refused = run({"ledger", "--json", "--op", "norm_rope_quant", "--m", "0"});
  CHECK(refused.exit_code == 2);
  CHECK(refused.out.empty());
}

TEST_CASE("erratum 20: the chapter's default tensors fit the L2 of the card it speaks of",
          "[errata]") {
  const Erratum entry = erratum(20);
  const std::int64_t l2 = moved(entry, "L2 of one NVIDIA H200 SXM", "largest tensor");
  CHECK(l2 == load_machine("h200").l2_bytes);
  CHECK(mb(entry, "rms_norm", "largest tensor") == "33.55");
  const std::string five[] = {"scale_add", "rms_norm", "layer_norm", "rope", "norm_rope_quant"};
  for (const std::string& op : five) {
    INFO(op);
    CHECK(moved(entry, op, "largest tensor") <= 50'000'000);  // the smallest L2 of such cards
    CHECK(moved(entry, op, "largest tensor") < l2);
    CHECK(moved(entry, op, "least at DRAM") < moved(entry, op, "unfused, on paper"));
  }
  CHECK(mb(entry, "scale_add", "unfused, on paper") == "20.97");
  CHECK(mb(entry, "scale_add", "least at DRAM") == "12.58");
  CHECK(moved(entry, "scale_add", "least at DRAM") < l2);
}

TEST_CASE("erratum 20: without its intermediates an unfused plan moves what the fused one does",
          "[errata]") {
  const Erratum entry = erratum(20);
  const ordered_json cases =
      ordered_json::parse(printed({"ledger", "--json", "--convention", "exact"})).at("cases");
  for (const ordered_json& one : cases) {
    const std::string op = one.at("op");
    const Case plans = find_operator(op)->make_case(find_operator(op)->defaults, Convention::exact);
    // Inputs are read and never written, outputs written and never read.
    std::map<std::string, std::int64_t> read, written;
    for (const Kernel& kernel : plans.unfused.kernels) {
      for (const Tensor& tensor : kernel.reads) read[tensor.name] = tensor.bytes();
      for (const Tensor& tensor : kernel.writes) written[tensor.name] = tensor.bytes();
    }
    std::int64_t least = 0;
    for (const auto& [name, size] : read) least += written.contains(name) ? 0 : size;
    for (const auto& [name, size] : written) least += read.contains(name) ? 0 : size;
    CHECK(moved(entry, op, "least at DRAM") == least);
  }
}

TEST_CASE("erratum 21: against a rotation in place fusion gains 2.35x, not 3.61x", "[errata]") {
  const Erratum entry = erratum(21);
  const std::string all = "rope copies all n columns: the book's, and exact";
  CHECK(mb(entry, all, "unfused") == "185.62");
  CHECK(ratio(entry, all) == "3.61");
  const std::string in_place = "rope turns the tail in place";
  CHECK(mb(entry, in_place, "unfused") == "120.61");
  CHECK(mb(entry, in_place, "fused") == "51.40");
  CHECK(ratio(entry, in_place) == "2.35");
  // norm: x, w, normed; rope: the tail twice, cos and sin; quant: normed, q, amax.
  CHECK(moved(entry, in_place, "unfused") ==
        (2 * mn + n) * e + (2 * m * rd + m * rd) * e + mn * e + mn + 4 * m);
}

TEST_CASE("erratum 22: charged by the block, w makes rms_norm's gain 2.33x, not 3.50x",
          "[errata]") {
  const Erratum entry = erratum(22);
  const std::string call = "w once a call: the book's, and exact";
  CHECK(mb(entry, call, "unfused") == "234.99");
  CHECK(mb(entry, call, "fused") == "67.12");
  CHECK(ratio(entry, call) == "3.50");
  const std::string block = "w once a block of the fused kernel, a row each";
  CHECK(mb(entry, block, "unfused") == "234.99");
  CHECK(mb(entry, block, "fused") == "100.66");
  CHECK(ratio(entry, block) == "2.33");
  CHECK(moved(entry, block, "fused") == 3 * mn * e);  // x, y, and w as often as there are rows
  CHECK_THAT(entry.right, ContainsSubstring("w is 8,192 bytes"));
}

TEST_CASE("erratum 24: the book leaves out a division, the floor and two divisions more",
          "[errata]") {
  const Erratum entry = erratum(24);
  CHECK(flops(entry, "norm", "book") == 4 * mn + 2 * m);
  CHECK(flops(entry, "norm", "right") == 4 * mn + 3 * m);
  CHECK(flops(entry, "rope", "book") == 3 * m * rd);
  CHECK(flops(entry, "rope", "right") == 3 * m * rd);
  CHECK(flops(entry, "quant", "book") == 3 * mn + m);
  CHECK(flops(entry, "quant", "right") == 3 * mn + 2 * m);
  CHECK(flops(entry, "fused", "book") == 4 * mn + 3 * m * rd + 3 * mn + 3 * m);
  CHECK(flops(entry, "fused", "right") == 4 * mn + 3 * m * rd + 3 * mn + 5 * m);
  for (const char* whose : {"book", "right"}) {
    CHECK(flops(entry, "unfused, all", whose) == flops(entry, "fused", whose));
  }
  CHECK(flops(entry, "layer_norm, fused", "book") == 6 * mn + 2 * m);
  CHECK(flops(entry, "layer_norm, fused", "right") == 8 * mn + 4 * m);
}

TEST_CASE("erratum 25: a row of 4096 float32 values is 16 KB of 256 KB of registers", "[errata]") {
  const Erratum entry = erratum(25);
  const auto share = [&](const std::string& row) {
    return figure<double>(entry, row, "share of registers", Unit::share);
  };
  const auto registers = [&](const std::string& row) {
    return figure<std::int64_t>(entry, row, "registers a thread of 256", Unit::count);
  };
  CHECK(bytes(entry, "4096 columns in float32", "size") == 16 * 1024);
  CHECK(share("4096 columns in float32") == 16.0 / 256.0);
  CHECK(registers("4096 columns in float32") == 16);
  CHECK(bytes(entry, "65536 columns in float32", "size") == 256 * 1024);
  CHECK(share("65536 columns in float32") == 1.0);
  CHECK(registers("65536 columns in float32") == 256);
}

TEST_CASE("erratum 26: sizes that the book's ledger breaks on are refused", "[errata]") {
  const Erratum entry = erratum(26);
  check_refused(entry, "--rope-dim", "127");
  check_refused(entry, "--rope-dim", "4098");
  check_refused(entry, "--rope-dim", "0");
  check_refused(entry, "--n", "0");
  check_refused(entry, "--m", "0");
}

TEST_CASE("the errata are those of the book's chapter 13, each whole", "[errata]") {
  std::vector<int> numbers;
  for (const Erratum& entry : errata()) {
    INFO(entry.number);
    numbers.push_back(entry.number);
    for (const std::string& text : {entry.title, entry.book, entry.right}) CHECK(!text.empty());
    CHECK(entry.figures.lines.empty() == (entry.number == 9));
    std::set<std::string> labels;
    for (const FigureLine& line : entry.figures.lines) {
      CHECK(line.figures.size() == entry.figures.measures.size());
      CHECK(labels.insert(line.label).second);
    }
  }
  CHECK(numbers == std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 22, 24, 25, 26});
}

}  // namespace opbook::ch13
