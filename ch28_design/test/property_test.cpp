// What holds for every design, tried on random shapes, strides, alignments, dtypes and options. A
// failure prints its seed; OPBOOK_SEED=<seed> runs that one alone.

#include "common/test/property.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "ch28_design/problem.hpp"

namespace opbook::ch28 {
namespace {

RunArguments draw_arguments(Draw& draw) {
  RunArguments a;
  a.design = all_designs[draw.below(4)];
  a.layout = draw.below(2) == 0 ? Layout::packed : Layout::qkv;
  a.sizes.tokens = draw.between(1, 12);
  a.sizes.q_heads = draw.between(0, 9);
  a.sizes.kv_heads = draw.between(a.sizes.q_heads == 0 ? 1 : 0, 5);
  constexpr std::int64_t widths[] = {64, 96, 128, 192, 256};
  a.sizes.head_dim = draw.below(3) == 0 ? 2 * draw.between(1, 150) : widths[draw.below(5)];
  if (draw.below(2) == 0) a.sizes.rope_dim = 2 * draw.between(1, a.sizes.head_dim / 2);
  a.sizes.rows_per_block = draw.between(2, 64);
  a.options.dtype = draw.below(2) == 0 ? Dtype::bfloat16 : Dtype::float16;
  a.options.with_y = draw.below(2) == 0;
  if (draw.below(2) == 0) {
    a.options.positions = {20, draw.between(1, a.sizes.tokens),
                           draw.below(2) == 0 ? Dtype::int32 : Dtype::int64};
  }
  constexpr float all_eps[] = {1e-6f, 1e-5f, 0.25f};
  a.eps = all_eps[draw.below(3)];
  return a;
}

void check_seed(std::uint64_t seed) {
  Draw draw(seed);
  const RunArguments a = draw_arguments(draw);
  const Problem problem = make_problem(a);
  INFO("OPBOOK_SEED=" << seed << ": design " << name_of(a.design) << ' '
                      << opbook::name_of(a.options.dtype) << " tokens " << a.sizes.tokens
                      << " heads " << a.sizes.q_heads << " + " << a.sizes.kv_heads << " dh "
                      << a.sizes.head_dim << " rd " << a.sizes.turned() << " rows a block "
                      << a.sizes.rows_per_block);
  require_promises(problem, draw);
  // A design changes which rows share what, and no bit.
  Tensors tensors(problem.tensors, draw.below(8));
  fill_inputs(problem, tensors, seed);
  const Stores stores = draw_stores(draw);
  RunArguments other = a;
  other.design = all_designs[draw.below(4)];
  CHECK(run_fresh(make_problem(other), PlanKind::fused, tensors, stores) ==
        run_fresh(problem, PlanKind::fused, tensors, stores));
}

}  // namespace

TEST_CASE("every design keeps its promises on random shapes, strides, dtypes and options",
          "[property]") {
  for_each_seed(check_seed);
}

}  // namespace opbook::ch28
