#pragma once

// The memory roofs of a CPU: how fast bytes can be moved from one place to another at all. Each
// uses all cores, and memory of its own.

#include <cstdint>
#include <functional>

#include "common/dtype.hpp"

namespace opbook {

/// A plain copy: loads and non-temporal stores. Moves `bytes` in all, half of them read, half
/// written, each time it is called.
std::function<void()> copy_roof(std::int64_t bytes);

/// A copy that converts on its way: load, widen to float32, round to the output's dtype, store past
/// the caches. What an operator on 16-bit data can reach at best. Moves `bytes` in all, from
/// elements of `in` to as many of `out`. Throws ArgumentError for an input dtype other than
/// float32, float16 and bfloat16.
std::function<void()> converting_copy_roof(std::int64_t bytes, Dtype in, Dtype out);

}  // namespace opbook
