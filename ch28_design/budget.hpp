#pragma once

// What a machine makes of a design on paper: whether a block fits, how many blocks an SM holds, in
// how many waves the grid runs, and the time that its bytes take at least.

#include <cstdint>
#include <optional>

#include "ch28_design/ledger.hpp"
#include "common/machine.hpp"

namespace opbook::ch28 {

/// Blocks of an SM at once, whatever they hold, as the book has it.
inline constexpr std::int64_t book_resident_blocks = 8;

/// What CUDA keeps of an SM's shared memory for each resident block, in bytes, and the most blocks
/// that an SM of compute capability 8.0, 9.0 or 10.0 holds (CUDA C++ Programming Guide, section on
/// compute capabilities).
inline constexpr std::int64_t reserved_bytes_per_block = 1024;
inline constexpr std::int64_t most_resident_blocks = 32;

/// Microseconds that `bytes` take at `bandwidth_gbs` 10^9 bytes a second.
double time_us(std::int64_t bytes, double bandwidth_gbs);

struct Budget {
  bool fits = false;                 ///< a block's on-chip bytes are within the budget
  std::int64_t resident_blocks = 0;  ///< of an SM; 0: an SM cannot hold one
  std::int64_t waves = 0;            ///< ceil(grid / (SMs * resident_blocks)); 0 where that is 0
  double floor_us = 0;               ///< the design's total bytes at arguments.bandwidth_gbs
};

/// The book's: 8 resident blocks. Exact: as many as an SM's on-chip memory holds, that of the
/// machine or else the budget and one reservation. Throws ArgumentError where the bandwidth makes a
/// time that is zero or not finite.
Budget budget_of(const DesignLedger& design, const Arguments& arguments, Convention convention,
                 const std::optional<Machine>& machine = std::nullopt);

/// The same with the bytes of an SM given: what errata compare.
std::int64_t resident_blocks(std::int64_t on_chip_bytes, std::int64_t sm_bytes);

/// What a last-level cache leaves of a design's bytes. A block's weights and table rows were read
/// by blocks that ran just before it or run beside it: they are still in a cache that holds what
/// all resident blocks and one token move.
struct CacheLevel {
  double window_bytes = 0;  ///< what has to stay for that
  bool holds = false;
  std::int64_t dram_bytes =
      0;  ///< the ideal bytes where the cache holds the window, else the total
};
CacheLevel cache_level(const DesignLedger& design, const Budget& budget, const Arguments& arguments,
                       std::int64_t l2_bytes);

/// The bandwidth of the operator's mix, two bytes read for one written: mix_2_1 where the machine
/// has measured it, else triad, copy, or the data sheet's peak.
double mix_bandwidth_gbs(const Machine& machine);
std::string_view mix_name(const Machine& machine);

}  // namespace opbook::ch28
