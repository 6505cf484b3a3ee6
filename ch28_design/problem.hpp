#pragma once

// The operator at one size, ready to be run, counted, checked and timed.

#include <cstdint>

#include "ch28_design/plans.hpp"
#include "common/problem.hpp"

namespace opbook::ch28 {

/// How q and k lie in memory: `packed` [tokens, q heads + kv heads, dh], or `qkv`, the same with
/// the kv heads of v behind them, which nothing reads.
enum class Layout { packed, qkv };

/// What a run may vary.
struct RunArguments {
  Arguments sizes;
  RunOptions options;
  Design design = Design::D;
  Layout layout = Layout::packed;
  float eps = 1e-6f;
};

/// Tensors: x, q_weight and k_weight of the kinds of head there are, cos, sin and, where
/// options.positions has table rows, positions; normed and rotated; codes, scale and y. Throws
/// ArgumentError as operator_ledger() does, for a dtype other than bfloat16 and float16, and, in
/// design B, for rows_per_block outside 2 to 64.
Problem make_problem(const RunArguments& arguments);

}  // namespace opbook::ch28
