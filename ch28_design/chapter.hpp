#pragma once

#include <string>

#include "ch28_design/problem.hpp"
#include "common/chapter.hpp"

namespace opbook::ch28 {

/// This chapter, as the subcommands verify, bench, cache and show see it.
Chapter chapter();

/// The problem of one design under the name that results and tables give it, "qk_norm_rope_quant
/// (design A)"; of D, ours, the operator's name alone.
Problem named_problem(const RunArguments& arguments);

}  // namespace opbook::ch28
