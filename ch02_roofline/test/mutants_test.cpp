// A test of the tests: chains with a fault built in, each of which verification must catch.

#include "common/test/mutants.hpp"

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ch02_roofline/test/chain_test.hpp"

using namespace opbook;
using namespace opbook::ch02;

namespace {

Mutant damaged_y(std::string name, const Problem& right, std::function<void(Array& y)> damage) {
  return damaged(std::move(name), right, [=](Tensors& tensors) { damage(tensors.at("y")); });
}

}  // namespace

TEST_CASE("verification catches every chain with a fault in it", "[mutants]") {
  for (const Dtype dtype : dtypes) {
    const Arguments arguments{.n = 5000, .k = 16, .dtype = dtype};
    const Problem right = chain_problem(arguments);
    REQUIRE_FALSE(is_caught(right));
    std::vector<Mutant> mutants;
    const auto with = [&](const char* name, const std::function<void(Arguments&)>& change) {
      Arguments other = arguments;
      change(other);
      mutants.push_back(swapped(name, right, chain_problem(other)));
    };
    with("a step short", [](Arguments& a) { --a.k; });
    with("a step too many", [](Arguments& a) { ++a.k; });
    with("a of the other sign", [](Arguments& a) { a.a = -a.a; });
    with("a a little off", [](Arguments& a) { a.a *= 1 + 0x1p-6f; });
    with("b left out", [](Arguments& a) { a.b = 0; });
    mutants.push_back(damaged_y("the last element never written", right, [](Array& y) {
      std::memset(y.raw() + y.bytes() - size_of(y.dtype()), 0xFF, size_of(y.dtype()));
    }));
    mutants.push_back(damaged_y("one bit of one element", right, [](Array& y) {
      std::byte& low = y.raw()[y.elements() / 2 * size_of(y.dtype())];
      low ^= std::byte{1};
    }));
    mutants.push_back(damaged_y("two elements in each other's place", right, [](Array& y) {
      const std::int64_t e = size_of(y.dtype());
      std::swap_ranges(y.raw(), y.raw() + e, y.raw() + e);
    }));
    mutants.push_back(damaged_y("a write beyond the end", right,
                                [](Array& y) { y.raw()[y.bytes()] = std::byte{0}; }));
    Problem unfused_twice = right;
    unfused_twice.replay = [=](Metered& metered, PlanKind, Tensors& tensors) {
      right.replay(metered, PlanKind::unfused, tensors);
    };
    mutants.push_back({"fused in name alone", unfused_twice});
    for (const Mutant& mutant : mutants) {
      INFO(name_of(dtype) << ": " << mutant.name);
      CHECK(is_caught(mutant.problem));
    }
  }
}
