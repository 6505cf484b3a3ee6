#pragma once

// Chapter 2 on paper: the chain of multiply-adds x <- a * x + b, k times over n elements. Source:
// the book's section 2.2. Both conventions say the same of it.

#include <cstdint>

#include "common/ledger.hpp"

namespace opbook::ch02 {

/// What the chain is asked for. a and b are float32, whatever the dtype.
struct Arguments {
  std::int64_t n = 1 << 20;
  std::int64_t k = 64;  ///< multiply-adds on each element
  Dtype dtype = Dtype::float32;
  /// With |a| < 1 and no growth in b the sweep stays in range however long it is: x moves towards
  /// b / (1 - a), about 0.5, from either side in turn. So near to 1 that x still shows after 4096.
  float a = -0.999755859375f;  // -(1 - 2^-12)
  float b = 1.0f;
};

inline constexpr Dtype dtypes[] = {Dtype::float32, Dtype::float16, Dtype::bfloat16};

/// The longest chain: each of its steps is a kernel of the unfused plan, and listed.
inline constexpr std::int64_t most_steps = 65536;

/// "step_1" to "step_k": the kernels of the unfused plan.
std::string step_name(std::int64_t step);

/// y = a * (... (a * x + b) ...) + b. Unfused: k kernels, the first from x to y, the others from y
/// to y: 2 n e bytes each. Fused: one, 2 n e bytes in all. 2 k n FLOPs either way. Throws
/// ArgumentError, naming the argument, for n below 1, k outside 1 to most_steps, a dtype not listed
/// above, and bytes or FLOPs beyond int64.
Case multiply_add_chain_case(const Arguments& arguments);

}  // namespace opbook::ch02
