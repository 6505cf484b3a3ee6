#pragma once

// What a GPU's own counters say a plan moved, through Nsight Compute (`ncu`).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace opbook {

/// Bytes, summed over a plan's kernels. Every kernel starts on cold caches, so that it does not
/// find in L2 what the one before it left there; and what it leaves in L2 itself, not yet written
/// back, is not among the bytes written to DRAM.
struct Counters {
  std::optional<std::int64_t> dram_read;
  std::optional<std::int64_t> dram_written;
  std::optional<std::int64_t> l2;  ///< all that passed through L2, hits and misses alike
  std::string note;                ///< one line: why the figures are empty

  std::optional<std::int64_t> dram() const {
    if (!dram_read || !dram_written) return std::nullopt;
    return *dram_read + *dram_written;
  }
};

/// Reads what `ncu --csv --page raw` printed, whatever the profiled program printed in between.
Counters parse_ncu(std::string_view output);

/// Runs a program of ours, which runs one plan once (`chNN once`), under ncu. Never throws for want
/// of ncu, of a GPU or of the permission to read its counters: the note says which.
Counters count_plan(std::span<const std::string> once_command);

}  // namespace opbook
