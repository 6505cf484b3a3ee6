// What holds for every operator of the table, tried on random shapes, strides, alignments, dtypes
// and options. A failure prints its seed; OPBOOK_SEED=<seed> runs that one alone.

#include "common/test/property.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "ch13_norm_rope/operators.hpp"

using namespace opbook;
using namespace opbook::ch13;

namespace {

/// Small sizes often, larger ones sometimes, powers of two and their neighbours among them.
std::int64_t draw_columns(Draw& draw) {
  switch (draw.below(4)) {
    case 0:
      return draw.between(1, 40);
    case 1:
      return std::max<std::int64_t>(1, (1 << draw.between(1, 11)) + draw.between(-1, 1));
    case 2:
      return 128 * draw.between(1, 20);
    default:
      return draw.between(1, 3000);
  }
}

Arguments draw_arguments(Draw& draw, const Operator& op) {
  Arguments a = op.defaults;
  a.dtype = input_dtypes[draw.below(3)];
  a.m = draw.between(1, 40);
  a.n = draw_columns(draw);
  a.tokens = draw.between(1, 12);
  a.heads = draw.between(1, 9);
  a.rope_dim = a.n < 2 ? 2 : 2 * draw.between(1, std::min<std::int64_t>(a.n, 256) / 2);
  if (a.n < 2) a.n = 2;
  if (draw.below(2) == 0) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 1; d <= a.n; ++d) {
      if (a.n % d == 0) divisors.push_back(d);
    }
    a.group_size = divisors[draw.below(static_cast<std::int64_t>(divisors.size()))];
  }
  a.with_y = draw.below(2) == 1;
  constexpr float all_eps[] = {1e-6f, 1e-5f, 0.25f};
  a.eps = all_eps[draw.below(3)];
  a.rounding = draw.below(2) == 0 ? Rounding::once : Rounding::before_weight;
  a.weight_offset = static_cast<int>(draw.below(2));
  return a;
}

void check_seed(std::uint64_t seed) {
  Draw draw(seed);
  const std::span<const Operator> table = operators();
  const Operator& op = table[draw.below(static_cast<std::int64_t>(table.size()))];
  const Arguments arguments = draw_arguments(draw, op);
  const Problem problem = op.make_problem(arguments);
  INFO("OPBOOK_SEED=" << seed << ": " << op.name << ' ' << name_of(arguments.dtype) << " m "
                      << arguments.m << " n " << arguments.n << " tokens " << arguments.tokens
                      << " heads " << arguments.heads << " rope_dim " << arguments.rope_dim
                      << " group_size " << arguments.group_size);
  require_promises(problem, draw);
}

}  // namespace

TEST_CASE("every operator keeps its promises on random shapes, strides, dtypes and options",
          "[property]") {
  for_each_seed(check_seed);
}
