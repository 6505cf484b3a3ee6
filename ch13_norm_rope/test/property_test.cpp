// What holds for every operator of the table, tried on random shapes, strides, alignments, dtypes
// and options. A failure prints its seed; OPBOOK_SEED=<seed> runs that one alone.

#include <omp.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "ch13_norm_rope/operators.hpp"
#include "common/build_kind.hpp"
#include "common/random.hpp"
#include "common/verify_problem.hpp"

using namespace opbook;
using namespace opbook::ch13;

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
  const std::span<const Operator> table = operators();
  const Operator& op = table[draw.below(static_cast<std::int64_t>(table.size()))];
  const Arguments arguments = draw_arguments(draw, op);
  const Problem problem = op.make_problem(arguments);
  INFO("OPBOOK_SEED=" << seed << ": " << op.name << ' ' << name_of(arguments.dtype) << " m "
                      << arguments.m << " n " << arguments.n << " tokens " << arguments.tokens
                      << " heads " << arguments.heads << " rope_dim " << arguments.rope_dim
                      << " group_size " << arguments.group_size);
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
}

}  // namespace

TEST_CASE("every operator keeps its promises on random shapes, strides, dtypes and options",
          "[property]") {
  if (const char* seed = std::getenv("OPBOOK_SEED")) {
    check_seed(std::strtoull(seed, nullptr, 10));
    return;
  }
  const std::uint64_t seeds = times_count ? 400 : 20;  // fewer where every operation is slow
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) check_seed(seed);
}
