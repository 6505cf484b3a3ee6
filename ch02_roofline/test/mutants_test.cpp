// A test of the tests: chains with a fault built in, each of which verification must catch.

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ch02_roofline/test/chain_test.hpp"

using namespace opbook;
using namespace opbook::ch02;

namespace {

bool is_caught(const Problem& problem) {
  Tensors tensors(problem.tensors);
  fill_inputs(problem, tensors, 5);
  Fast fast;
  return !all_pass(verify_problem(problem, tensors, fast));
}

/// Runs what `other` runs and is held to what `right` promises.
Problem swapped(Problem right, const Problem& other) {
  right.run = other.run;
  right.replay = other.replay;
  return right;
}

Problem damaged(const Problem& right, const std::function<void(Array& y)>& damage) {
  Problem mutant = right;
  mutant.run = [=](Fast& fast, PlanKind plan, Tensors& tensors) {
    right.run(fast, plan, tensors);
    damage(tensors.at("y"));
  };
  mutant.replay = [=](Metered& metered, PlanKind plan, Tensors& tensors) {
    right.replay(metered, plan, tensors);
    damage(tensors.at("y"));
  };
  return mutant;
}

}  // namespace

TEST_CASE("verification catches every chain with a fault in it", "[mutants]") {
  for (const Dtype dtype : dtypes) {
    const Arguments arguments{.n = 5000, .k = 16, .dtype = dtype};
    const Problem right = chain_problem(arguments);
    REQUIRE_FALSE(is_caught(right));
    std::vector<std::pair<std::string, Problem>> mutants;
    const auto with = [&](const char* name, const std::function<void(Arguments&)>& change) {
      Arguments other = arguments;
      change(other);
      mutants.emplace_back(name, swapped(right, chain_problem(other)));
    };
    with("a step short", [](Arguments& a) { --a.k; });
    with("a step too many", [](Arguments& a) { ++a.k; });
    with("a of the other sign", [](Arguments& a) { a.a = -a.a; });
    with("a a little off", [](Arguments& a) { a.a *= 1 + 0x1p-6f; });
    with("b left out", [](Arguments& a) { a.b = 0; });
    mutants.emplace_back("the last element never written", damaged(right, [](Array& y) {
                           std::memset(y.raw() + y.bytes() - size_of(y.dtype()), 0xFF,
                                       size_of(y.dtype()));
                         }));
    mutants.emplace_back("one bit of one element", damaged(right, [](Array& y) {
                           std::byte& low = y.raw()[y.elements() / 2 * size_of(y.dtype())];
                           low ^= std::byte{1};
                         }));
    mutants.emplace_back("two elements in each other's place", damaged(right, [](Array& y) {
                           const std::int64_t e = size_of(y.dtype());
                           std::swap_ranges(y.raw(), y.raw() + e, y.raw() + e);
                         }));
    mutants.emplace_back("a write beyond the end",
                         damaged(right, [](Array& y) { y.raw()[y.bytes()] = std::byte{0}; }));
    Problem unfused_twice = right;
    unfused_twice.replay = [=](Metered& metered, PlanKind, Tensors& tensors) {
      right.replay(metered, PlanKind::unfused, tensors);
    };
    mutants.emplace_back("fused in name alone", unfused_twice);
    for (const auto& [name, mutant] : mutants) {
      INFO(name_of(dtype) << ": " << name);
      CHECK(is_caught(mutant));
    }
  }
}
