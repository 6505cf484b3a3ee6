#include "common/compare_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "common/compare.hpp"
#include "common/error.hpp"
#include "common/npy.hpp"
#include "common/table.hpp"
#include "common/verify.hpp"

namespace opbook {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

// --- results against results
// ----------------------------------------------------------------------

/// The record that belongs to results: their machine's, of the chapter their file is named after.
std::string record_of(const fs::path& mine, const Results& results) {
  const std::string chapter = mine.filename().string().substr(0, 4);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (chapter.size() != 4 || !chapter.starts_with("ch") || !is_digit(chapter[2]) ||
      !is_digit(chapter[3])) {
    throw ArgumentError(
        fmt::format("RECORDED: left out, and MINE, \"{}\", is not named after a chapter; allowed: "
                    "a results file here, or a name like ch13.json there",
                    mine.string()));
  }
  const fs::path record = record_path(results.machine, chapter);
  std::error_code none;
  if (!fs::exists(record, none)) {
    throw ArgumentError(
        fmt::format("RECORDED: left out, and of this machine ({}) there is no {}; allowed: a "
                    "results file, or ./book bench {} --record to make that one",
                    results.machine.name, record.string(), chapter));
  }
  return record.string();
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, " x "));
}

std::string share_text(const Bounded& share) {
  return fmt::format("{} [{}, {}]", fixed(100 * share.median, 1), fixed(100 * share.low, 1),
                     fixed(100 * share.high, 1));
}

std::string change_text(const ComparedRow& row) {
  const double ratio = row.mine.share_of_roof / row.recorded.share_of_roof;
  const std::string text = percent(ratio - 1);
  return ratio >= 1 && std::isfinite(ratio) ? "+" + text : text;
}

std::string machine_text(const Results& results) {
  const MachineInfo& machine = results.machine;
  return fmt::format("{}, {}, commit {}", machine.name,
                     machine.compiler.empty() ? "compiler unknown" : machine.compiler,
                     machine.commit.empty() ? "unknown" : machine.commit);
}

struct Side {
  std::string path;
  Results results;
};

std::string render(const Side& mine, const Side& recorded, const Comparison& comparison) {
  Table table({{"op", Align::left},
               {"dtype", Align::left},
               {"plan", Align::left},
               {"device", Align::left},
               {"caches", Align::left},
               {"% of", Align::left},
               {"shape", Align::left},
               {"mine"},
               {"recorded"},
               {"change"},
               {"verdict", Align::left}});
  bool shapes_differ = false;
  const auto add = [&](const ResultRow& row, const std::string& shape,
                       std::vector<std::string> rest) {
    std::vector<std::string> cells{row.op,          row.dtype, row.plan, row.device,
                                   row.temperature, row.roof,  shape};
    cells.insert(cells.end(), rest.begin(), rest.end());
    table.add_row(std::move(cells));
  };
  for (const ComparedRow& row : comparison.rows) {
    std::string shape = shape_text(row.mine.shape);
    if (row.mine.shape != row.recorded.shape) {
      shape += " / " + shape_text(row.recorded.shape);
      shapes_differ = true;
    }
    add(row.mine, shape,
        {share_text(share_of_roof(row.mine)), share_text(share_of_roof(row.recorded)),
         change_text(row), std::string(name_of(row.change))});
  }
  for (const ResultRow& row : comparison.only_mine) {
    add(row, shape_text(row.shape), {share_text(share_of_roof(row)), "", "", "only in MINE"});
  }
  for (const ResultRow& row : comparison.only_recorded) {
    add(row, shape_text(row.shape), {"", share_text(share_of_roof(row)), "", "only in RECORDED"});
  }
  std::string text =
      fmt::format("MINE      {}: {}\nRECORDED  {}: {}\n\n", mine.path, machine_text(mine.results),
                  recorded.path, machine_text(recorded.results));
  text += table.render() + "\n";
  if (shapes_differ) {
    text += "Where two shapes stand in a row, MINE was measured at the first.\n";
  }
  return text;
}

ordered_json measured(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

ordered_json row_json(const ResultRow& row) {
  return {{"op", row.op},
          {"shape", row.shape},
          {"dtype", row.dtype},
          {"plan", row.plan},
          {"device", row.device},
          {"temperature", row.temperature},
          {"roof", row.roof},
          {"share_of_roof", measured(row.share_of_roof)},
          {"share_lo", measured(row.share_lo)},
          {"share_hi", measured(row.share_hi)}};
}

ordered_json rows_json(const std::vector<ResultRow>& rows) {
  ordered_json list = ordered_json::array();
  for (const ResultRow& row : rows) list.push_back(row_json(row));
  return list;
}

ordered_json to_json(const Side& mine, const Side& recorded, const Comparison& comparison) {
  const auto side = [](const Side& one) {
    return ordered_json{{"file", one.path},
                        {"machine", one.results.machine.name},
                        {"commit", one.results.machine.commit}};
  };
  ordered_json rows = ordered_json::array();
  for (const ComparedRow& row : comparison.rows) {
    rows.push_back({{"verdict", name_of(row.change)},
                    {"change", measured(row.mine.share_of_roof / row.recorded.share_of_roof - 1)},
                    {"mine", row_json(row.mine)},
                    {"recorded", row_json(row.recorded)}});
  }
  return {{"mine", side(mine)},
          {"recorded", side(recorded)},
          {"rows", rows},
          {"only_mine", rows_json(comparison.only_mine)},
          {"only_recorded", rows_json(comparison.only_recorded)}};
}

Outcome compare_results_files(const GivenFlags& given) {
  for (const char* const flag : {"--dtype", "--ulps"}) {
    if (!given.contains(flag)) continue;
    throw ArgumentError(fmt::format("{}: given with results; allowed: with .npy files", flag));
  }
  const Side mine{given.at("MINE"), read_results(given.at("MINE"))};
  const std::string other =
      given.contains("RECORDED") ? given.at("RECORDED") : record_of(mine.path, mine.results);
  const Side recorded{other, read_results(other)};
  const Comparison comparison = compare_results(mine.results, recorded.results);
  const auto count = [&](Change change) {
    return std::count_if(comparison.rows.begin(), comparison.rows.end(),
                         [=](const ComparedRow& row) { return row.change == change; });
  };

  Outcome outcome;
  // Nothing compared is nothing shown to be as fast as it was.
  outcome.exit_code = count(Change::slower) > 0 || comparison.rows.empty() ? 1 : 0;
  if (given.contains("--json")) {
    outcome.out = to_json(mine, recorded, comparison).dump(1) + "\n";
    return outcome;
  }
  outcome.out = render(mine, recorded, comparison);
  if (comparison.rows.empty()) {
    outcome.out += "No row of MINE belongs to one of RECORDED: nothing was compared.\n";
  } else {
    outcome.out += fmt::format(
        "{} SAME, {} FASTER, {} SLOWER, {} AMBIGUOUS; {} only in MINE, {} only in "
        "RECORDED.\n",
        count(Change::same), count(Change::faster), count(Change::slower), count(Change::ambiguous),
        comparison.only_mine.size(), comparison.only_recorded.size());
  }
  return outcome;
}

// --- outputs against outputs
// ----------------------------------------------------------------------

/// The place of a row-major index in a shape.
std::vector<std::int64_t> coordinates(std::int64_t index, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> place(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    place[d] = index % shape[d];
    index /= shape[d];
  }
  return place;
}

std::string list_text(const std::vector<std::int64_t>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

/// Enough digits to tell any two float32 apart.
std::string value_text(double value) {
  return fmt::format("{:.9g}", value);
}

std::string render(const Array& a, const Array& b, const Verdict& verdict) {
  std::string text;
  for (const auto& [side, array] : {std::pair("A", &a), std::pair("B", &b)}) {
    text += fmt::format("{}  {}: {} {}\n", side, array->name(), name_of(array->dtype()),
                        list_text(array->shape()));
  }
  const std::string allowed = fmt::format("{:.0f} ulp allowed", verdict.tolerance_ulp);
  if (!verdict.problem.empty()) {
    text += fmt::format("DIFFERENT: {}\n", verdict.problem);
  }
  if (verdict.mismatches > 0) {
    text += fmt::format("DIFFERENT: {} of {} elements, worst {:.10g} ulp at {}, {}\n\n",
                        verdict.mismatches, verdict.elements, verdict.worst_ulp,
                        list_text(coordinates(verdict.worst_index, a.shape())), allowed);
    Table table({{"index", Align::left}, {"A"}, {"B"}, {"ulp"}, {"", Align::left}});
    for (const Mismatch& wrong : verdict.first) {
      table.add_row({list_text(coordinates(wrong.index, a.shape())), value_text(wrong.actual),
                     value_text(wrong.expected), fmt::format("{:.10g}", wrong.ulps),
                     wrong.ulps == 0 ? "equal but for its bits" : ""});
    }
    text += table.render();
  }
  if (verdict.pass) {
    text += verdict.elements == 0
                ? "SAME: no elements on either side\n"
                : fmt::format("SAME: {} elements, worst {:.10g} ulp at {}, {}\n", verdict.elements,
                              verdict.worst_ulp,
                              list_text(coordinates(verdict.worst_index, a.shape())), allowed);
  }
  return text;
}

/// JSON has no NaN and no Inf: they are written as texts.
ordered_json number(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(fmt::format("{}", value));
}

ordered_json to_json(const Array& a, const Array& b, const Verdict& verdict) {
  const auto side = [](const Array& array) {
    return ordered_json{
        {"file", array.name()}, {"dtype", name_of(array.dtype())}, {"shape", array.shape()}};
  };
  ordered_json first = ordered_json::array();
  for (const Mismatch& wrong : verdict.first) {
    first.push_back({{"index", coordinates(wrong.index, a.shape())},
                     {"a", number(wrong.actual)},
                     {"b", number(wrong.expected)},
                     {"ulps", number(wrong.ulps)}});
  }
  ordered_json worst_index = nullptr;
  if (verdict.worst_index >= 0) worst_index = coordinates(verdict.worst_index, a.shape());
  return {{"verdict", verdict.pass ? "SAME" : "DIFFERENT"},
          {"a", side(a)},
          {"b", side(b)},
          {"elements", verdict.elements},
          {"allowed_ulps", verdict.tolerance_ulp},
          {"worst_ulps", number(verdict.worst_ulp)},
          {"worst_index", worst_index},
          {"mismatches", verdict.mismatches},
          {"first", first},
          {"problem", verdict.problem}};
}

int parse_ulps(const std::string& text) {
  const std::optional<std::int64_t> ulps = whole_number(text);
  if (!ulps || *ulps > std::numeric_limits<int>::max()) {
    refuse_number("--ulps", text, "a whole number from 0 to 2^31 - 1");
  }
  return static_cast<int>(*ulps);
}

Outcome compare_arrays(const GivenFlags& given) {
  if (!given.contains("RECORDED")) {
    throw ArgumentError("B: missing; allowed: the .npy file that A is held against");
  }
  const int ulps = parse_ulps(value_or(given, "--ulps", "0"));
  std::optional<Dtype> dtype;
  if (given.contains("--dtype")) {
    constexpr Dtype allowed[] = {Dtype::float32,       Dtype::float16, Dtype::bfloat16,
                                 Dtype::float8_e4m3fn, Dtype::int32,   Dtype::int64};
    dtype = parse_dtype("--dtype", given.at("--dtype"), allowed);
  }
  const Array a = load_npy(given.at("MINE"), given.at("MINE"), dtype);
  const Array b = load_npy(given.at("RECORDED"), given.at("RECORDED"), dtype);
  const Verdict verdict = compare_bits(a, b, ulps);
  Outcome outcome;
  outcome.exit_code = verdict.pass ? 0 : 1;
  outcome.out =
      given.contains("--json") ? to_json(a, b, verdict).dump(1) + "\n" : render(a, b, verdict);
  return outcome;
}

// --- which of the two
// -----------------------------------------------------------------------------

bool is_npy(const std::string& argument, const std::string& path) {
  const std::string extension = fs::path(path).extension().string();
  if (extension == ".npy") return true;
  if (extension == ".json") return false;
  throw ArgumentError(
      fmt::format("{}: got \"{}\"; allowed: a .json or a .npy file", argument, path));
}

Outcome run_compare(const GivenFlags& given) {
  if (!given.contains("MINE")) {
    throw ArgumentError("MINE: missing; allowed: a .json file of results, or an output as .npy");
  }
  const bool arrays = is_npy("MINE", given.at("MINE"));
  if (given.contains("RECORDED") && is_npy("RECORDED", given.at("RECORDED")) != arrays) {
    throw ArgumentError(fmt::format("RECORDED: got \"{}\"; allowed: a {} file, as MINE is",
                                    given.at("RECORDED"), arrays ? ".npy" : ".json"));
  }
  return arrays ? compare_arrays(given) : compare_results_files(given);
}

}  // namespace

Subcommand compare_subcommand() {
  return {"compare",
          "results against recorded results, or an output against another",
          {{"MINE", "FILE", "results (.json), or an output (.npy)"},
           {"RECORDED", "FILE", "what to hold it against; of results, default: this machine's"},
           {"--dtype", "DTYPE", "of .npy files that hold bare bits"},
           {"--ulps", "N", "representable steps by which elements may differ; default: 0"},
           {"--json", "", "print JSON"}},
          run_compare};
}

}  // namespace opbook
