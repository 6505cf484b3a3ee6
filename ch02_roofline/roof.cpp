#include "ch02_roofline/roof.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/error.hpp"
#include "common/files.hpp"
#include "common/json_fields.hpp"
#include "common/machine.hpp"

namespace opbook::ch02 {
namespace {

using nlohmann::ordered_json;

bool is_whole_machine(const Roof& roof) {
  return roof.where.starts_with("all");
}

ordered_json number_or_null(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json();
}

ordered_json to_json(const Roof& roof) {
  ordered_json json = {
      {"name", roof.name}, {"unit", roof.unit}, {"where", roof.where}, {"how", roof.how}};
  if (roof.working_set_bytes > 0) json["working_set_bytes"] = roof.working_set_bytes;
  json["median"] = number_or_null(roof.median);
  json["p25"] = number_or_null(roof.p25);
  json["p75"] = number_or_null(roof.p75);
  json["n"] = roof.n;
  if (roof.of_theory) json["of_theory"] = *roof.of_theory;
  if (roof.note) json["note"] = *roof.note;
  return json;
}

Roof from_json(const JsonFields& fields) {
  Roof roof;
  roof.name = fields.name("name");
  constexpr std::string_view units[] = {"GB/s", "TFLOP/s", "us"};
  roof.unit = fields.name("unit", units);
  roof.where = fields.name("where");
  roof.how = fields.name("how");
  if (fields.has("working_set_bytes")) {
    roof.working_set_bytes = fields.whole("working_set_bytes", 1);
  }
  roof.median = fields.measured("median");
  roof.p25 = fields.measured("p25");
  roof.p75 = fields.measured("p75");
  roof.n = static_cast<int>(fields.whole("n"));
  if (fields.has("of_theory")) roof.of_theory = fields.measured("of_theory");
  if (fields.has("note")) roof.note = fields.text("note");
  return roof;
}

/// The best rate of each name that was measured.
ordered_json best_rates(std::span<const Roof> roofs, std::span<const std::string_view> names) {
  ordered_json rates = ordered_json::object();
  for (const std::string_view name : names) {
    if (const Roof* best = best_roof(roofs, name)) rates[std::string(name)] = best->median;
  }
  return rates;
}

}  // namespace

void fill_rate(Roof& roof, double amount, std::span<const double> samples_us) {
  const Timing timing = summarise(samples_us);
  roof.n = timing.n;
  const auto rate = [&](double us) {
    if (roof.unit == "GB/s") return amount / us / 1e3;
    if (roof.unit == "TFLOP/s") return amount / us / 1e6;
    return us;
  };
  roof.median = rate(timing.median_us);
  roof.p25 = rate(timing.p25_us);
  roof.p75 = rate(timing.p75_us);
  if (roof.p25 > roof.p75) std::swap(roof.p25, roof.p75);
}

const Roof* best_roof(std::span<const Roof> roofs, std::string_view name) {
  const Roof* best = nullptr;
  for (const Roof& roof : roofs) {
    if (roof.name != name || !is_whole_machine(roof) || !(roof.median > 0)) continue;
    const bool larger = best != nullptr && roof.working_set_bytes > best->working_set_bytes;
    const bool faster = best != nullptr && roof.working_set_bytes == best->working_set_bytes &&
                        roof.median > best->median;
    if (best == nullptr || larger || faster) best = &roof;
  }
  return best;
}

std::vector<std::string> impossible_roofs(std::span<const Roof> roofs, const MachineInfo& machine) {
  const std::optional<Machine> sheet = data_sheet_of(machine.name);
  std::vector<std::string> lines;
  for (const Roof& roof : roofs) {
    // A clock that is read beside the samples, not within them, may be off by a few percent.
    if (roof.of_theory && *roof.of_theory > 1.05) {
      lines.push_back(fmt::format("{}, {}, {}: {:.0f} % of the theoretical peak", roof.name,
                                  roof.how, roof.where, 100 * *roof.of_theory));
    }
    if (!sheet || !is_whole_machine(roof) || &roof != best_roof(roofs, roof.name)) continue;
    const double peak = roof.unit == "GB/s" ? sheet->bandwidth_for("peak")
                        : sheet->peak_tflops.contains(roof.name)
                            ? sheet->peak_for(roof.name)
                            : std::numeric_limits<double>::infinity();
    if (roof.unit != "us" && roof.median > peak) {
      lines.push_back(fmt::format("{}, {}: {:.1f} {}, but the data sheet allows {:.1f}", roof.name,
                                  roof.how, roof.median, roof.unit, peak));
    }
  }
  return lines;
}

std::vector<std::string> doubtful_roofs(std::span<const Roof> roofs) {
  const Roof* best = best_roof(roofs, "fp32");
  if (best == nullptr || !best->of_theory || *best->of_theory >= 0.5) return {};
  return {fmt::format("fp32, {}, {}: {:.1f} % of the theoretical peak; was the machine busy?",
                      best->how, best->where, 100 * *best->of_theory)};
}

void write_machine(const std::filesystem::path& path, const MachineInfo& machine,
                   const OnChip& on_chip, std::span<const Roof> roofs) {
  const ordered_json bandwidth = best_rates(roofs, bandwidth_mixes);
  const ordered_json peaks = best_rates(roofs, compute_units);
  if (!bandwidth.contains("copy") || !peaks.contains("fp32")) {
    throw ArgumentError("roofs: got none of copy or of fp32; allowed: both measured");
  }
  ordered_json list = ordered_json::array();
  for (const Roof& roof : roofs) list.push_back(to_json(roof));
  const ordered_json json = {
      {"name", machine.name},
      {"kind", "measured"},
      {"source",
       fmt::format("bench ch02 at commit {}, compiled by {}{}. Rates: the best way found, "
                   "median of its samples, over the whole machine; bandwidth far beyond "
                   "the caches. roofs says how each was measured. {}",
                   machine.commit.empty() ? "unknown" : machine.commit, machine.compiler,
                   machine.clocks.empty() ? "" : "; clocks: " + machine.clocks, on_chip.how)},
      {"bandwidth_gbs", bandwidth},
      {"peak_tflops", peaks},
      {"sms", std::max<std::int64_t>(1, machine.device == "cuda" ? machine.sms : machine.cores)},
      {"on_chip_bytes_per_block", on_chip.bytes_per_block},
      {"on_chip_bytes_per_sm", on_chip.bytes_per_sm},
      {"l2_bytes", std::max<std::int64_t>(1, machine.llc_bytes)},
      {"memory_bytes", machine.memory_bytes},
      {"roofs", list}};
  write_file(path, {json.dump(1), "\n"});
}

std::vector<Roof> read_roofs(const std::filesystem::path& path) {
  const nlohmann::json document = read_json(path);
  const JsonFields fields(document, path.string() + ": ");
  std::vector<Roof> roofs;
  for (const JsonFields& one : fields.objects("roofs")) roofs.push_back(from_json(one));
  return roofs;
}

}  // namespace opbook::ch02
