#pragma once

// The exact ledger of what is run: unfused, as three kernels; fused, as one; and the fused kernel
// block by block. This is what replay is held to.

#include <cstdint>
#include <optional>

#include "ch28_design/ledger.hpp"
#include "common/dtype.hpp"
#include "common/ledger.hpp"

namespace opbook::ch28 {

/// RoPE tables of [positions, rope_dim / 2], of which an index a token picks the row: 0, 1, ...,
/// distinct - 1, 0, 1, ...
struct PickedRows {
  std::int64_t table_rows = 0;  ///< positions; 0: there are no indices, row i turns token i
  std::int64_t distinct = 0;    ///< how many of them the indices name
  Dtype dtype = Dtype::int64;   ///< of the indices: int32 or int64
};

/// What a run may vary.
struct RunOptions {
  Dtype dtype = Dtype::bfloat16;  ///< of the heads and weights: bfloat16 or float16
  bool with_y = false;            ///< the fused plan writes y too, in float32
  PickedRows positions = {};
};

/// Unfused: norm (4 an element, 3 a row), rope (3 a turned column; it copies the others), quant (3
/// an element, 2 a row), the first two storing in the input's dtype. Fused: the ideal bytes. Throws
/// ArgumentError as operator_ledger() does.
Case qk_norm_rope_quant_case(const Arguments& arguments, const RunOptions& options);

/// The fused kernel of a design, each block charged what it touches.
Kernel kernel_by_block(const Arguments& arguments, const RunOptions& options, Design design);

}  // namespace opbook::ch28
