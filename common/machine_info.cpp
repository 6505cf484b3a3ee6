#include "common/machine_info.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>
#include <thread>

#include "common/cuda/probe.hpp"
#include "common/error.hpp"

namespace opbook {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The value behind "key : value" in files like /proc/cpuinfo, its first occurrence, spaces
// collapsed.
std::string value_of(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == line.npos || !line.starts_with(key)) continue;
    if (line.find_first_not_of(" \t", key.size()) != colon) continue;
    std::istringstream words(line.substr(colon + 1));
    std::string value;
    for (std::string word; words >> word;) value += (value.empty() ? "" : " ") + word;
    return value;
  }
  return "";
}

// The whole number that a text begins with; 0 where there is none or it is too large.
std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// 32768K, as /sys writes sizes.
std::int64_t sized(const std::string& text) {
  const std::int64_t unit = text.ends_with('K') ? 1 << 10 : text.ends_with('M') ? 1 << 20 : 1;
  return number(text) * unit;
}

std::int64_t llc_bytes(const fs::path& root) {
  // A cache appears once for each processor that shares it; the list of these tells caches apart.
  std::int64_t top_level = 0;
  std::map<std::string, std::int64_t> caches;
  std::error_code none;
  for (const auto& cpu : fs::directory_iterator(root / "sys/devices/system/cpu", none)) {
    for (const auto& cache : fs::directory_iterator(cpu.path() / "cache", none)) {
      const std::int64_t level = number(first_line(cache.path() / "level"));
      if (level < top_level || first_line(cache.path() / "type") == "Instruction") continue;
      if (level > top_level) caches.clear();
      top_level = level;
      caches[first_line(cache.path() / "shared_cpu_list")] =
          sized(first_line(cache.path() / "size"));
    }
  }
  std::int64_t total = 0;
  for (const auto& [cpus, bytes] : caches) total += bytes;
#ifdef _SC_LEVEL3_CACHE_SIZE  // where the C library knows caches; some virtual machines hide /sys
  if (total == 0) total = std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE));
#endif
  return total;
}

std::int64_t memory_bytes(const fs::path& root) {
  std::int64_t bytes = number(value_of(root / "proc/meminfo", "MemTotal")) * 1024;
  if (bytes == 0) {
    bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  }
  // A container's limit; "max" where there is none.
  const std::int64_t limit = number(first_line(root / "sys/fs/cgroup/memory.max"));
  return limit > 0 ? std::min(bytes, limit) : bytes;
}

std::string cpu_name(const fs::path& root) {
  const std::string model = value_of(root / "proc/cpuinfo", "model name");
  if (!model.empty()) return model;
  utsname system{};
  return uname(&system) == 0 ? fmt::format("{} CPU", system.machine) : "CPU";
}

std::string quoted_for_shell(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

/// The first line that a shell command prints; "" where it fails.
std::string line_of(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  char text[256] = "";
  const bool read = std::fgets(text, sizeof text, pipe) != nullptr;
  if (pclose(pipe) != 0 || !read) return "";
  std::string line(text);
  while (line.ends_with('\n')) line.pop_back();
  return line;
}

}  // namespace

std::string machine_slug(std::string_view name) {
  std::string slug;
  while (!name.empty()) {
    bool trade_mark = false;
    for (const std::string_view mark : {"(R)", "(r)", "(TM)", "(tm)"}) {
      if (!trade_mark && name.starts_with(mark)) {
        name.remove_prefix(mark.size());
        trade_mark = true;
      }
    }
    if (trade_mark) continue;
    const char c = name.front();
    name.remove_prefix(1);
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z')) {
      slug += c;
    } else if (c >= 'A' && c <= 'Z') {
      slug += static_cast<char>(c - 'A' + 'a');
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  if (slug.ends_with('-')) slug.pop_back();
  return slug.empty() ? "unknown" : slug;
}

MachineInfo describe_cpu(const fs::path& root) {
  const std::int64_t mhz = number(value_of(root / "proc/cpuinfo", "cpu MHz"));
  return {
      .name = cpu_name(root),
      .device = "cpu",
      .cores = std::thread::hardware_concurrency(),
      .sms = 0,
      .memory_bytes = memory_bytes(root),
      .llc_bytes = llc_bytes(root),
      .driver = "",
      .toolkit = "",
      .clocks = mhz > 0 ? fmt::format("{} MHz", mhz) : "",
      .compiler = compiler_version(),
      .commit = source_commit(),
  };
}

MachineInfo describe_device() {
  const gpu::Probe probe = gpu::probe_device();
  if (!probe.device) throw DeviceUnavailable("no CUDA device: " + probe.reason);
  const gpu::DeviceInfo& device = *probe.device;
  const auto query = [&](const char* fields) {
    return line_of(fmt::format("nvidia-smi -i {} --query-gpu={} --format=csv,noheader 2>/dev/null",
                               quoted_for_shell(device.pci_bus_id), fields));
  };
  const std::string clocks = query("clocks.sm,clocks.max.sm,clocks.mem");
  return {
      .name = device.name,
      .device = "cuda",
      .cores = std::thread::hardware_concurrency(),
      .sms = device.sm_count,
      .memory_bytes = device.memory_bytes,
      .llc_bytes = device.l2_bytes,
      .driver = query("driver_version"),
      .toolkit = "CUDA " + device.toolkit,
      .clocks = clocks.empty() ? "" : "SM, its maximum, memory: " + clocks,
      .compiler = compiler_version(),
      .commit = source_commit(),
  };
}

std::string compiler_version() {
#ifdef __clang__
  return __VERSION__;
#else
  return "GCC " __VERSION__;
#endif
}

std::string source_commit() {
  // The ceiling keeps git from answering for a repository that merely encloses this one.
  const fs::path root = fs::path(OPBOOK_SOURCE_DIR).lexically_normal();
  const std::string command = fmt::format(
      "GIT_CEILING_DIRECTORIES={} git -C {} describe --always --dirty --abbrev=12 --exclude='*' "
      "2>/dev/null",
      quoted_for_shell(root.parent_path().string()), quoted_for_shell(root.string()));
  return line_of(command);
}

}  // namespace opbook
