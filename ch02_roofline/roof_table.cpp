#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ch02_roofline/roof.hpp"
#include "common/machine.hpp"
#include "common/table.hpp"

namespace opbook::ch02 {
namespace {

std::string size_text(std::int64_t bytes) {
  for (const auto& [unit, name] : {std::pair(std::int64_t{1} << 30, "GiB"),
                                   {std::int64_t{1} << 20, "MiB"},
                                   {std::int64_t{1} << 10, "KiB"}}) {
    if (bytes >= unit) {
      const double count = static_cast<double>(bytes) / static_cast<double>(unit);
      return fmt::format("{} {}", fixed(count, count < 10 && count != std::round(count) ? 1 : 0),
                         name);
    }
  }
  return fmt::format("{} B", bytes);
}

template <class Value>
void add_once(std::vector<Value>& values, const Value& value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
}

/// By working set, a table for one core and one for all: the best way of each mix.
std::string curves(std::span<const Roof> roofs) {
  std::vector<std::string> places;
  for (const Roof& roof : roofs) {
    if (roof.unit == "GB/s") add_once(places, roof.where);
  }
  std::string text;
  for (const std::string& where : places) {
    std::vector<std::int64_t> sizes;
    std::vector<std::string> mixes;
    for (const Roof& roof : roofs) {
      if (roof.unit != "GB/s" || roof.where != where) continue;
      add_once(sizes, roof.working_set_bytes);
      add_once(mixes, roof.name);
    }
    std::sort(sizes.begin(), sizes.end());
    std::vector<Column> columns = {{"working set"}};
    for (const std::string& mix : mixes) columns.push_back({mix});
    Table table(columns);
    for (const std::int64_t size : sizes) {
      std::vector<std::string> cells = {size_text(size)};
      for (const std::string& mix : mixes) {
        double best = 0;
        for (const Roof& roof : roofs) {
          if (roof.where == where && roof.name == mix && roof.working_set_bytes == size) {
            best = std::max(best, roof.median);
          }
        }
        cells.push_back(best > 0 ? fixed(best, 1) : "");
      }
      table.add_row(std::move(cells));
    }
    text += fmt::format("Bandwidth by working set, {}, GB/s\n\n{}\n", where, table.render());
  }
  return text;
}

/// The largest working set of each place: what memory gives, by the way it is asked.
std::vector<const Roof*> in_memory(std::span<const Roof> roofs) {
  std::vector<const Roof*> found;
  for (const Roof& roof : roofs) {
    const bool largest = std::none_of(roofs.begin(), roofs.end(), [&](const Roof& other) {
      return other.unit == "GB/s" && other.where == roof.where &&
             other.working_set_bytes > roof.working_set_bytes;
    });
    if (roof.unit == "GB/s" && largest) found.push_back(&roof);
  }
  return found;
}

std::string list(const std::string& title, std::span<const Roof* const> roofs,
                 const std::string& unit, int decimals) {
  if (roofs.empty()) return "";
  Table table({{"roof", Align::left},
               {"where", Align::left},
               {"how", Align::left},
               {unit},
               {"quartiles"},
               {"of theory"}});
  std::string notes;
  for (const Roof* roof : roofs) {
    const bool measured = std::isfinite(roof->median);
    table.add_row(
        {roof->name, roof->where, roof->how, fixed(roof->median, decimals),
         measured ? fmt::format("{} - {}", fixed(roof->p25, decimals), fixed(roof->p75, decimals))
                  : "",
         roof->of_theory ? percent(*roof->of_theory) : ""});
    if (roof->note) {
      notes += fmt::format("{}, {}, {}: {}.\n", roof->name, roof->how, roof->where, *roof->note);
    }
  }
  return fmt::format("{}\n\n{}{}\n", title, table.render(), notes);
}

}  // namespace

std::string render_roofs(std::span<const Roof> roofs) {
  const auto of_unit = [&](std::string_view unit) {
    std::vector<const Roof*> found;
    for (const Roof& roof : roofs) {
      if (roof.unit == unit) found.push_back(&roof);
    }
    return found;
  };
  return curves(roofs) + list("Memory, by the way it is asked", in_memory(roofs), "GB/s", 1) +
         list("Arithmetic", of_unit("TFLOP/s"), "TFLOP/s", 3) +
         list("Launching an empty kernel", of_unit("us"), "us", 2);
}

}  // namespace opbook::ch02
