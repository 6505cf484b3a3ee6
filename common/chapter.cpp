#include "common/chapter.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

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

void require_cpu(const GivenFlags& given) {
  constexpr std::string_view devices[] = {"cpu", "cuda"};
  if (parse_choice("--device", value_or(given, "--device", "cpu"), devices) == 1) {
    throw DeviceUnavailable(
        "--device: got \"cuda\", for which there are no kernels yet; allowed: cpu");
  }
}

void progress(const std::string& line) {
  if (isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K{}", line);
}

}  // namespace opbook
