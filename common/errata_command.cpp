#include "common/errata_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/table.hpp"

namespace opbook {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t line_width = 96;

/// How a unit shows: behind the header of its column, and behind the name of its JSON field.
struct UnitNames {
  std::string_view header;
  std::string_view field;
};

UnitNames names_of(Unit unit) {
  switch (unit) {
    case Unit::megabytes:
      return {" MB", "_bytes"};
    case Unit::bytes:
      return {" bytes", "_bytes"};
    case Unit::flop:
      return {" FLOP", "_flops"};
    case Unit::microseconds:
      return {" us", "_us"};
    default:
      return {"", ""};
  }
}

std::string text_of(const Figure& figure, Unit unit) {
  if (const auto* whole = std::get_if<std::int64_t>(&figure)) {
    return unit == Unit::megabytes ? megabytes(*whole) : thousands(*whole);
  }
  if (const auto* real = std::get_if<double>(&figure)) {
    if (unit == Unit::share) return percent(*real);
    return fixed(*real, unit == Unit::flop_per_byte || unit == Unit::microseconds ? 3 : 2);
  }
  if (const auto* text = std::get_if<std::string>(&figure)) return *text;
  return "-";
}

/// The words of `text` on lines behind `label`, all of them indented as far.
std::string paragraph(const std::string& label, const std::string& text) {
  std::istringstream words(text);
  std::string result, line = label, word;
  while (words >> word) {
    if (line.size() + 1 + word.size() > line_width) {
      result += line;
      result += '\n';
      line = std::string(label.size(), ' ');
    }
    line += ' ';
    line += word;
  }
  return result + line + '\n';
}

std::string table_text(const Figures& figures) {
  std::vector<Column> columns = {{figures.what, Align::left}};
  for (const auto& [name, unit] : figures.measures) {
    columns.push_back({fmt::format("{}{}", name, names_of(unit).header),
                       unit == Unit::text ? Align::left : Align::right});
  }
  Table table(columns);
  for (const FigureLine& line : figures.lines) {
    std::vector<std::string> cells = {line.label};
    for (std::size_t c = 0; c < line.figures.size(); ++c) {
      cells.push_back(text_of(line.figures[c], figures.measures[c].unit));
    }
    table.add_row(std::move(cells));
  }
  std::istringstream lines(table.render());
  std::string result, line;
  while (std::getline(lines, line)) result.append("    ").append(line).append(1, '\n');
  return result;
}

std::string entry_text(const Erratum& erratum) {
  std::string text = fmt::format("{:2}. {}\n\n", erratum.number, erratum.title);
  text += paragraph("    Book: ", erratum.book);
  text += paragraph("    Right:", erratum.right);
  if (!erratum.figures.measures.empty()) {
    text += '\n';
    text += table_text(erratum.figures);
  }
  return text;
}

ordered_json entry_json(const Erratum& erratum) {
  ordered_json lines = ordered_json::array();
  for (const FigureLine& line : erratum.figures.lines) {
    ordered_json fields = {{"label", line.label}};
    for (std::size_t c = 0; c < line.figures.size(); ++c) {
      const auto& [measure, unit] = erratum.figures.measures[c];
      std::string name = fmt::format("{}{}", measure, names_of(unit).field);
      std::replace(name.begin(), name.end(), ' ', '_');
      std::visit(
          [&](const auto& value) {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
              fields[name] = nullptr;
            } else {
              fields[name] = value;
            }
          },
          line.figures[c]);
    }
    lines.push_back(std::move(fields));
  }
  return {{"number", erratum.number},
          {"title", erratum.title},
          {"book", erratum.book},
          {"right", erratum.right},
          {"figures", std::move(lines)}};
}

Outcome run_errata(const std::vector<Erratum>& errata, const GivenFlags& given) {
  Outcome outcome;
  if (given.contains("--json")) {
    ordered_json entries = ordered_json::array();
    for (const Erratum& erratum : errata) entries.push_back(entry_json(erratum));
    outcome.out = ordered_json{{"errata", std::move(entries)}}.dump(2) + "\n";
    return outcome;
  }
  for (const Erratum& erratum : errata) {
    if (!outcome.out.empty()) outcome.out += "\n";
    outcome.out += entry_text(erratum);
  }
  return outcome;
}

}  // namespace

Subcommand errata_subcommand(std::function<std::vector<Erratum>()> errata) {
  return {"errata",
          "where the book contradicts itself, and what is right",
          {{"--json", "", "print JSON and nothing else"}},
          [errata = std::move(errata)](const GivenFlags& given) {
            return run_errata(errata(), given);
          }};
}

}  // namespace opbook
