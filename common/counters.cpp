#include "common/counters.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace opbook {
namespace {

constexpr std::string_view dram_read_metric = "dram__bytes_read.sum";
constexpr std::string_view dram_written_metric = "dram__bytes_write.sum";
constexpr std::string_view l2_metric = "lts__t_bytes.sum";

using Cells = std::vector<std::string>;

/// The fields of a line of CSV. A quote within a quoted field is doubled.
Cells split_csv(std::string_view line) {
  Cells cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// Bytes of "33,554,432" in a unit that ncu names; empty for "n/a" and for what is no amount.
std::optional<std::int64_t> bytes_of(const std::string& text, std::string_view unit) {
  double scale = 0;
  if (unit == "byte") scale = 1;
  if (unit == "Kbyte") scale = 1e3;
  if (unit == "Mbyte") scale = 1e6;
  if (unit == "Gbyte") scale = 1e9;
  std::string digits;
  for (const char c : text) {
    if (c != ',') digits += c;
  }
  double value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, value);
  if (scale == 0 || error != std::errc() || rest != end || !(value >= 0 && value < 9e18 / scale)) {
    return std::nullopt;
  }
  return std::llround(scale * value);
}

/// The table in ncu's output: metrics' names, their units, and a line for each kernel.
struct NcuTable {
  Cells names;
  Cells units;
  std::vector<Cells> kernels;
};

NcuTable find_table(std::string_view output) {
  NcuTable table;
  for (const std::string_view line : split_lines(output)) {
    if (!line.starts_with('"')) continue;
    Cells cells = split_csv(line);
    if (cells.front() == "ID") {
      table.names = std::move(cells);
    } else if (cells.size() != table.names.size()) {
      continue;  // printed by the program
    } else if (cells.front().empty()) {
      table.units = std::move(cells);
    } else {
      table.kernels.push_back(std::move(cells));
    }
  }
  return table;
}

/// One metric, summed; empty where a kernel lacks it.
std::optional<std::int64_t> sum_of(const NcuTable& table, std::string_view metric) {
  if (table.kernels.empty() || table.units.empty()) return std::nullopt;
  for (std::size_t column = 0; column < table.names.size(); ++column) {
    if (table.names[column] != metric) continue;
    std::int64_t sum = 0;
    for (const Cells& kernel : table.kernels) {
      const auto bytes = bytes_of(kernel[column], table.units[column]);
      if (!bytes) return std::nullopt;
      sum += *bytes;
    }
    return sum;
  }
  return std::nullopt;
}

std::string why_empty(std::string_view output) {
  if (output.find("ERR_NVGPUCTRPERM") != output.npos) {
    return "ncu may not read the counters: that takes root, or the driver's leave "
           "(ERR_NVGPUCTRPERM)";
  }
  if (output.find("No kernels were profiled") != output.npos) return "ncu saw no kernel";
  const std::vector<std::string_view> lines = split_lines(output);
  if (lines.empty()) return "ncu printed nothing";
  if (lines.back().starts_with('"')) return "ncu did not count every metric";
  return fmt::format("ncu: {}", lines.back());
}

/// The path of ncu, which the CUDA Toolkit brings without putting it on PATH; empty where none is.
std::string find_ncu() {
  const char* const path = std::getenv("PATH");
  std::string folders = path ? path : "";
  const char* const toolkit = std::getenv("CUDA_PATH");
  folders += fmt::format(":{}/bin:", toolkit ? toolkit : "/usr/local/cuda");
  for (std::size_t begin = 0, end; (end = folders.find(':', begin)) != folders.npos;
       begin = end + 1) {
    if (begin == end) continue;
    const std::string file = folders.substr(begin, end - begin) + "/ncu";
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

std::string quoted_for_shell(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

}  // namespace

Counters parse_ncu(std::string_view output) {
  const NcuTable table = find_table(output);
  Counters counters{sum_of(table, dram_read_metric), sum_of(table, dram_written_metric),
                    sum_of(table, l2_metric), ""};
  if (!counters.dram_read || !counters.dram_written || !counters.l2) {
    counters.note = why_empty(output);
  }
  return counters;
}

Counters count_plan(std::span<const std::string> once_command) {
  const std::string ncu = find_ncu();
  if (ncu.empty()) return {{}, {}, {}, "ncu (Nsight Compute) is not installed"};
  // Clocks stay as they are: they do not change what is counted, and setting them takes rights.
  std::string command = fmt::format(
      "{} --clock-control none --cache-control all --replay-mode kernel --profile-from-start off "
      "--metrics {},{},{} --csv --page raw --print-units base",
      quoted_for_shell(ncu), dram_read_metric, dram_written_metric, l2_metric);
  for (const std::string& word : once_command) command += " " + quoted_for_shell(word);
  command += " 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {{}, {}, {}, "ncu could not be started"};
  std::string output;
  char buffer[4096];
  while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, pipe)) {
    output.append(buffer, count);
  }
  const bool failed = pclose(pipe) != 0;
  Counters counters = parse_ncu(output);
  if (failed && counters.note.empty()) return {{}, {}, {}, why_empty(output)};
  return counters;
}

}  // namespace opbook
