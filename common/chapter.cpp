#include "common/chapter.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "common/cuda/probe.hpp"
#include "common/error.hpp"

namespace opbook {

void refuse_without_op(const Chapter& chapter, const GivenFlags& given) {
  const auto refuse = [&](const std::string& flag) {
    if (!given.contains(flag)) return;
    throw ArgumentError(flag + " without --op; allowed: only together with --op");
  };
  for (const Flag& flag : chapter.argument_flags) refuse(flag.name);
  for (const std::string& name : chapter.input_names) refuse("--" + name);
  refuse("--save");
}

std::string_view name_of(Device device) {
  return device == Device::cpu ? "cpu" : "cuda";
}

Flag device_flag() {
  return {"--device", "cpu|cuda", "where to run, default cuda where there is a GPU"};
}

Device chosen_device(const GivenFlags& given) {
  constexpr std::string_view names[] = {"cpu", "cuda"};
  const auto found = given.find("--device");
  if (found == given.end()) return gpu::probe_device().device ? Device::cuda : Device::cpu;
  if (parse_choice("--device", found->second, names) == 0) return Device::cpu;
  const gpu::Probe probe = gpu::probe_device();
  if (!probe.device) {
    throw DeviceUnavailable(
        fmt::format("--device: got \"cuda\"; allowed here: cpu ({})", probe.reason));
  }
  return Device::cuda;
}

void progress(const std::string& line) {
  if (isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K{}", line);
}

}  // namespace opbook
