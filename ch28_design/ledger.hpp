#pragma once

// The operator on paper: QK-Norm, RoPE and FP8 quantisation of the q and k heads of each token, and
// the designs of one kernel for it, which differ in how many consecutive rows a block takes.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ch28_design/qk_norm_rope_quant.hpp"
#include "common/ledger.hpp"

namespace opbook::ch28 {

/// a / b of two counts of bytes.
inline double ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

/// The arguments of the ledger; defaults are the book's. A row is one head of one token.
struct Arguments {
  std::int64_t tokens = 4096;
  std::int64_t q_heads = 32;
  std::int64_t kv_heads = 8;
  std::int64_t head_dim = 128;             ///< columns of a row; even
  std::int64_t rows_per_block = 8;         ///< of design B
  std::optional<std::int64_t> rope_dim{};  ///< columns that turn; exact only, default all
  double bandwidth_gbs = 4502.4;           ///< 10^9 bytes a second
  std::int64_t sm_count = 132;             ///< multiprocessors
  double on_chip_kb = 192;                 ///< KiB that one block may have

  std::int64_t heads() const;  ///< checked
  std::int64_t turned() const { return rope_dim.value_or(head_dim); }
};

/// Throws ArgumentError for a size below one (one of the head counts may be 0), an odd head_dim, a
/// rope_dim that is odd, wider than head_dim or given under the book's convention, a bandwidth or
/// an on-chip size that is not finite and above zero.
void require_valid(const Arguments& arguments, Convention convention);

/// What any kernel for the operator has to do: the payload once, weights and tables once.
struct OperatorLedger {
  std::int64_t rows = 0;
  std::int64_t elements = 0;
  std::int64_t flops = 0;
  std::int64_t payload_bytes = 0;  ///< 2 an element in, 1 out, 4 a row for its scale
  std::int64_t ideal_lookup_bytes = 0;
  std::int64_t ideal_bytes = 0;
  std::int64_t read_bytes = 0;  ///< of the ideal bytes
  std::int64_t write_bytes = 0;

  double ai() const;  ///< FLOP per ideal byte
};

/// What one design moves, block by block, before any cache, and holds.
struct DesignLedger {
  Design design = Design::A;
  std::int64_t rows_per_block = 0;
  std::int64_t grid = 0;
  std::int64_t weight_reads = 0;  ///< weight rows, summed over blocks
  std::int64_t table_reads = 0;   ///< table rows (cos and sin of a token), summed over blocks
  std::int64_t payload_bytes = 0;
  std::int64_t weight_bytes = 0;
  std::int64_t table_bytes = 0;
  std::int64_t lookup_bytes = 0;  ///< weight_bytes + table_bytes
  std::int64_t total_bytes = 0;
  std::int64_t weights_held = 0;   ///< weight rows in the fullest block,
  std::int64_t tables_held = 0;    ///< and tokens whose table rows it holds
  std::int64_t on_chip_bytes = 0;  ///< of that block
};

/// A: a row a block. B: rows_per_block. C: a token. D: as our fastest kernel has it.
inline constexpr Design all_designs[] = {Design::A, Design::B, Design::C, Design::D};
std::string_view name_of(Design design);

/// Both throw ArgumentError as require_valid() does, and where a figure passes int64.
OperatorLedger operator_ledger(const Arguments& arguments, Convention convention);
DesignLedger design_ledger(const Arguments& arguments, Design design, Convention convention);

/// All designs, in order.
std::vector<DesignLedger> design_ledgers(const Arguments& arguments, Convention convention);

}  // namespace opbook::ch28
