#include "ch02_roofline/ledger.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/checked.hpp"

namespace opbook::ch02 {
namespace {

void require_arguments(const Arguments& arguments) {
  if (arguments.n < 1) {
    throw ArgumentError(fmt::format("n: got {}; allowed: a whole number above zero", arguments.n));
  }
  if (arguments.k < 1 || arguments.k > most_steps) {
    throw ArgumentError(
        fmt::format("k: got {}; allowed: a whole number from 1 to {}", arguments.k, most_steps));
  }
  if (std::find(std::begin(dtypes), std::end(dtypes), arguments.dtype) == std::end(dtypes)) {
    std::vector<std::string_view> names;
    for (const Dtype dtype : dtypes) names.push_back(name_of(dtype));
    throw ArgumentError(fmt::format("dtype: got {}; allowed: {}", name_of(arguments.dtype),
                                    fmt::join(names, ", ")));
  }
}

}  // namespace

std::string step_name(std::int64_t step) {
  return fmt::format("step_{}", step);
}

Case multiply_add_chain_case(const Arguments& arguments) {
  require_arguments(arguments);
  const Tensor x{"x", arguments.n, arguments.dtype}, y{"y", arguments.n, arguments.dtype};
  // Refused before k kernels are listed, the largest sums first.
  checked_mul({2, arguments.k, x.bytes()});
  const std::int64_t flops = checked_mul({2, arguments.k, arguments.n});
  Case plans{"multiply_add_chain", {}, {}};
  for (std::int64_t step = 1; step <= arguments.k; ++step) {
    plans.unfused.kernels.push_back({step_name(step), {step == 1 ? x : y}, {y}, 2 * arguments.n});
  }
  plans.fused.kernels = {{"fused", {x}, {y}, flops}};
  return plans;
}

}  // namespace opbook::ch02
