#pragma once

#include <cstdint>

namespace opbook::gpu {

/// Of every 16-bit y (bfloat16, or else float16) over `scales` scales of many magnitudes: how many
/// quotients, or e4m3 codes of them, differ from those of a true division. `tried` counts all.
std::int64_t wrong_quotients(bool bfloat, std::int64_t scales, std::int64_t& tried);

}  // namespace opbook::gpu
