#pragma once

#include <cstdint>

namespace opbook::gpu {

enum class Tried {
  real_scales_bfloat16,  ///< every y under the scale of every max |y|
  real_scales_float16,
  two_parts,   ///< y in float32 next to each boundary between codes, under scales of all mantissas
  all_scales,  ///< the scale of every max |y| in float32
  float32_sample  ///< 2^32 pairs of y and scale in float32
};

/// How many e4m3 codes of 16-bit y, scales, or float32 quotients differ from those of true
/// divisions.
std::int64_t wrong_quotients(Tried tried);

}  // namespace opbook::gpu
