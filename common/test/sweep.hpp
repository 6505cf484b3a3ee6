#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace opbook::test {

constexpr std::uint64_t float32_patterns = std::uint64_t{1} << 32;
/// A prime, so that the low bits differ from one pattern to the next: four million patterns in all.
constexpr std::uint64_t sweep_stride = 1021;

/// The first of the patterns 0, stride, 2 stride, ... below `end` that does not satisfy `holds`, in
/// hexadecimal; "none" if all do. One assertion a sweep keeps millions of patterns fast.
template <class F>
std::string first_failure(std::uint64_t end, F holds, std::uint64_t stride = 1) {
  for (std::uint64_t bits = 0; bits < end; bits += stride) {
    if (!holds(static_cast<std::uint32_t>(bits))) return fmt::format("{:#x}", bits);
  }
  return "none";
}

}  // namespace opbook::test
