#pragma once

#include <cstdint>

#include "common/dtype.hpp"

namespace opbook::ch13 {

/// Where rms_norm rounds its result to the input dtype: `once`, at the end; or `before_weight` too,
/// as Hugging Face's Llama does (x * rstd is rounded, then multiplied by w and rounded again).
enum class Rounding { once, before_weight };

/// RoPE tables of [positions, rope_dim / 2], of which an index a token picks the row.
struct PickedRows {
  std::int64_t table_rows = 0;  ///< positions; 0: there are no indices, row i turns token i
  std::int64_t distinct = 0;    ///< how many of them the indices name
  Dtype dtype = Dtype::int64;   ///< of the indices: int32 or int64
};

/// Every argument that an operator of this chapter may take; each takes some of them, and
/// ignores the rest. Symbols as in the book: x is [m, n], or [tokens, heads, rope_dim] for `rope`.
struct Arguments {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t rope_dim = 0;    ///< columns that turn: even; the last ones of the n
  std::int64_t group_size = 0;  ///< columns that share a scale, a divisor of n; 0: the whole row
  Dtype dtype = Dtype::float32;
  Dtype out_dtype = Dtype::float8_e4m3fn;
  bool with_y = false;  ///< the fused plan writes y beside its codes
  float eps = 1e-6f;    ///< added to a mean square or a variance
  Rounding rounding = Rounding::once;
  int weight_offset = 0;      ///< 1: the weight is 1 + w, formed for each element; exact only
  float scale = 0.7f;         ///< the a of scale_add's x * a + b
  PickedRows positions = {};  ///< exact only
};

/// The input dtypes, and those that quantised codes may have.
inline constexpr Dtype input_dtypes[] = {Dtype::float32, Dtype::float16, Dtype::bfloat16};
inline constexpr Dtype code_dtypes[] = {Dtype::float8_e4m3fn, Dtype::float16, Dtype::bfloat16};

}  // namespace opbook::ch13
