// What holds for every design, tried on random shapes, strides, alignments, dtypes and options. A
// failure prints its seed; OPBOOK_SEED=<seed> runs that one alone.

#include <omp.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "ch28_design/problem.hpp"
#include "common/build_kind.hpp"
#include "common/random.hpp"
#include "common/verify_problem.hpp"

namespace opbook::ch28 {
namespace {

/// Draws numbers that depend on the seed alone.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_bits(seed_, "draw", count_++) % bound);
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

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

using Bytes = std::map<std::string, std::vector<std::byte>>;

Bytes outputs_of(const Problem& problem, const Tensors& tensors) {
  Bytes bytes;
  for (const TensorSpec& spec : problem.tensors) {
    if (spec.role != Role::output) continue;
    const Array& array = tensors.at(spec.name);
    bytes[spec.name].assign(array.raw(), array.raw() + array.bytes());
  }
  return bytes;
}

Bytes run_fresh(const Problem& problem, PlanKind plan, Tensors& tensors, Stores stores) {
  poison_results(problem, tensors);
  Fast fast(stores);
  problem.run(fast, plan, tensors);
  return outputs_of(problem, tensors);
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
  Tensors tensors(problem.tensors, draw.below(8));
  fill_inputs(problem, tensors, seed);
  const Stores stores = draw.below(2) == 0 ? Stores::ordinary : Stores::streaming;
  Fast fast(stores);
  for (const Finding& finding : verify_problem(problem, tensors, fast)) {
    INFO(finding.plan << ' ' << finding.kernel << ' ' << finding.tensor << ": " << finding.detail);
    REQUIRE(finding.pass);
  }
  for (const PlanKind plan : both_plans) {
    const Bytes expected = run_fresh(problem, plan, tensors, stores);
    const int threads = omp_get_max_threads();
    omp_set_num_threads(static_cast<int>(draw.between(1, 7)));
    CHECK(run_fresh(problem, plan, tensors, Stores::automatic) == expected);
    omp_set_num_threads(threads);

    Tensors strided(problem.tensors);
    fill_inputs(problem, strided, seed);
    poison_results(problem, strided);
    strided.pad_rows(draw.between(1, 9));
    strided.scatter();
    problem.run(fast, plan, strided);
    strided.gather();
    CHECK(outputs_of(problem, strided) == expected);
    CHECK(strided.gaps_intact());
  }
  // A design changes which rows share what, and no bit.
  RunArguments other = a;
  other.design = all_designs[draw.below(4)];
  CHECK(run_fresh(make_problem(other), PlanKind::fused, tensors, stores) ==
        run_fresh(problem, PlanKind::fused, tensors, stores));
}

}  // namespace

TEST_CASE("every design keeps its promises on random shapes, strides, dtypes and options",
          "[property]") {
  if (const char* seed = std::getenv("OPBOOK_SEED")) {
    check_seed(std::strtoull(seed, nullptr, 10));
    return;
  }
  const std::uint64_t seeds = times_count ? 400 : 20;  // fewer where every operation is slow
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) check_seed(seed);
}

}  // namespace opbook::ch28
