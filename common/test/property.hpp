#pragma once

// What the property tests of the chapters share: random choices, and what holds for every problem.

#include <omp.h>

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "common/build_kind.hpp"
#include "common/random.hpp"
#include "common/verify_problem.hpp"

namespace opbook {

/// Draws numbers that depend on the seed alone.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t seed() const { return seed_; }
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_bits(seed_, "draw", count_++) % bound);
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

inline Stores draw_stores(Draw& draw) {
  return draw.below(2) == 0 ? Stores::ordinary : Stores::streaming;
}

/// The bytes of every output, by name.
using OutputBytes = std::map<std::string, std::vector<std::byte>>;

inline OutputBytes outputs_of(const Problem& problem, const Tensors& tensors) {
  OutputBytes bytes;
  for (const TensorSpec& spec : problem.tensors) {
    if (spec.role != Role::output) continue;
    const Array& array = tensors.at(spec.name);
    bytes[spec.name].assign(array.raw(), array.raw() + array.bytes());
  }
  return bytes;
}

/// The outputs of a run that finds them poisoned.
inline OutputBytes run_fresh(const Problem& problem, PlanKind plan, Tensors& tensors,
                             Stores stores) {
  poison_results(problem, tensors);
  Fast fast(stores);
  problem.run(fast, plan, tensors);
  return outputs_of(problem, tensors);
}

/// Both plans pass verification on inputs from the draw's seed, at a drawn alignment, and neither
/// the number of threads nor the kind of stores nor gaps between rows change a bit.
inline void require_promises(const Problem& problem, Draw& draw) {
  Tensors tensors(problem.tensors, draw.below(8));
  fill_inputs(problem, tensors, draw.seed());
  const Stores stores = draw_stores(draw);
  Fast fast(stores);
  for (const Finding& finding : verify_problem(problem, tensors, fast)) {
    INFO(finding.plan << ' ' << finding.kernel << ' ' << finding.tensor << ": " << finding.detail);
    REQUIRE(finding.pass);
  }
  for (const PlanKind plan : both_plans) {
    const OutputBytes expected = run_fresh(problem, plan, tensors, stores);
    const int threads = omp_get_max_threads();
    omp_set_num_threads(static_cast<int>(draw.between(1, 7)));
    CHECK(run_fresh(problem, plan, tensors, Stores::automatic) == expected);
    omp_set_num_threads(threads);

    Tensors strided(problem.tensors);
    fill_inputs(problem, strided, draw.seed());
    poison_results(problem, strided);
    strided.pad_rows(draw.between(1, 9));
    strided.scatter();
    problem.run(fast, plan, strided);
    strided.gather();
    CHECK(outputs_of(problem, strided) == expected);
    CHECK(strided.gaps_intact());
  }
}

/// Calls check_seed with every seed there is, or with that of the environment variable OPBOOK_SEED
/// alone.
template <class Check>
void for_each_seed(Check check_seed) {
  if (const char* seed = std::getenv("OPBOOK_SEED")) {
    check_seed(std::strtoull(seed, nullptr, 10));
    return;
  }
  const std::uint64_t seeds = times_count ? 400 : 20;  // fewer where every operation is slow
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) check_seed(seed);
}

}  // namespace opbook
