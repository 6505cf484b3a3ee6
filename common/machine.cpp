#include "common/machine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <vector>

#include "common/error.hpp"
#include "common/json_fields.hpp"
#include "common/machine_info.hpp"

namespace opbook {
namespace {

namespace fs = std::filesystem;

void require_known(std::string_view what, std::string_view name,
                   std::span<const std::string_view> known) {
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    throw ArgumentError(
        fmt::format("{}: got \"{}\"; allowed: {}", what, name, fmt::join(known, ", ")));
  }
}

std::map<std::string, double, std::less<>> read_rates(const JsonFields& rates,
                                                      const std::string& where,
                                                      std::span<const std::string_view> known,
                                                      const char* required) {
  rates.positive(required);
  std::map<std::string, double, std::less<>> result;
  for (const std::string& name : rates.names()) {
    require_known(where, name, known);
    result.emplace(name, rates.positive(name));
  }
  return result;
}

Machine read_machine(const fs::path& path) {
  const nlohmann::json document = read_json(path);
  const std::string where = path.string() + ": ";
  const JsonFields fields(document, where);
  constexpr std::string_view kinds[] = {"data_sheet", "measured"};
  Machine machine;
  machine.name = fields.name("name");
  const bool measured = fields.name("kind", kinds) == "measured";
  machine.kind = measured ? MachineKind::measured : MachineKind::data_sheet;
  machine.source = fields.name("source");
  machine.bandwidth_gbs = read_rates(fields.object("bandwidth_gbs"), where + "bandwidth_gbs",
                                     bandwidth_mixes, measured ? "copy" : "peak");
  machine.peak_tflops =
      read_rates(fields.object("peak_tflops"), where + "peak_tflops", compute_units, "fp32");
  machine.sms = fields.whole("sms", 1);
  machine.on_chip_bytes_per_block = fields.whole("on_chip_bytes_per_block", 1);
  machine.on_chip_bytes_per_sm = fields.whole("on_chip_bytes_per_sm", 1);
  machine.l2_bytes = fields.whole("l2_bytes", 1);
  if (fields.has("memory_bytes")) machine.memory_bytes = fields.whole("memory_bytes", 1);
  return machine;
}

void require_not_negative(std::string_view what, std::int64_t value) {
  if (value < 0) {
    throw ArgumentError(fmt::format("{}: got {}; allowed: zero or above", what, value));
  }
}

}  // namespace

double Machine::bandwidth_for(std::string_view mix) const {
  require_known("bandwidth", mix, bandwidth_mixes);
  for (const std::string_view candidate : {mix, std::string_view("copy")}) {
    if (const auto found = bandwidth_gbs.find(candidate); found != bandwidth_gbs.end()) {
      return found->second;
    }
  }
  return bandwidth_gbs.at("peak");
}

double Machine::peak_for(std::string_view unit) const {
  const auto found = peak_tflops.find(unit);
  if (found == peak_tflops.end()) {
    std::vector<std::string> known;
    for (const auto& [name_of_unit, rate] : peak_tflops) known.push_back(name_of_unit);
    throw ArgumentError(
        fmt::format("unit: got \"{}\"; allowed on {}: {}", unit, name, fmt::join(known, ", ")));
  }
  return found->second;
}

double Machine::balance_point(std::string_view unit) const {
  return peak_for(unit) * 1e12 / (bandwidth_for("copy") * 1e9);
}

double Machine::t_sol_us(std::int64_t bytes, std::int64_t flops, std::string_view unit) const {
  require_not_negative("bytes", bytes);
  require_not_negative("flops", flops);
  // 1 GB/s is 10^3 bytes a microsecond, 1 TFLOP/s 10^6 FLOPs.
  const double memory_us = static_cast<double>(bytes) / (bandwidth_for("copy") * 1e3);
  const double compute_us = static_cast<double>(flops) / (peak_for(unit) * 1e6);
  return std::max(memory_us, compute_us);
}

bool Machine::memory_bound(std::int64_t bytes, std::int64_t flops, std::string_view unit) const {
  require_not_negative("bytes", bytes);
  require_not_negative("flops", flops);
  return static_cast<double>(flops) < balance_point(unit) * static_cast<double>(bytes);
}

std::map<std::string, fs::path> known_machines() {
  const fs::path root(OPBOOK_SOURCE_DIR);
  std::map<std::string, fs::path> known;
  std::error_code none;  // a folder that is not there holds no machines
  for (const auto& entry : fs::directory_iterator(root / "common" / "machines", none)) {
    if (entry.path().extension() == ".json")
      known.emplace(entry.path().stem().string(), entry.path());
  }
  for (const auto& entry : fs::directory_iterator(root / "results", none)) {
    const fs::path file = entry.path() / "machine.json";
    if (fs::is_regular_file(file, none)) known.emplace(entry.path().filename().string(), file);
  }
  return known;
}

Machine load_machine(std::string_view name_or_file) {
  if (name_or_file.find('/') != std::string_view::npos || name_or_file.ends_with(".json")) {
    return read_machine(name_or_file);
  }
  const auto known = known_machines();
  const auto found = known.find(std::string(name_or_file));
  if (found == known.end()) {
    std::vector<std::string> names;
    for (const auto& [name, path] : known) names.push_back(name);
    throw ArgumentError(fmt::format("machine: got \"{}\"; allowed: {}, or a .json file",
                                    name_or_file, fmt::join(names, ", ")));
  }
  return read_machine(found->second);
}

std::optional<Machine> data_sheet_of(std::string_view machine_name) {
  const std::string slug = "-" + machine_slug(machine_name) + "-";
  for (const auto& [name, path] : known_machines()) {
    if (slug.find("-" + name + "-") == std::string::npos) continue;
    Machine machine = load_machine(name);
    if (machine.kind == MachineKind::data_sheet) return machine;
  }
  return std::nullopt;
}

}  // namespace opbook
