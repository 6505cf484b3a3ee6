#pragma once

// What the tests of the chain share.

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <string>

#include "ch02_roofline/chapter.hpp"
#include "common/random.hpp"
#include "common/verify_problem.hpp"

namespace opbook::ch02 {

inline Array filled(const char* name, Dtype dtype, std::int64_t n, std::int64_t offset = 0) {
  Array array(name, dtype, {n}, offset);
  fill_normal_like(array, 3);
  return array;
}

inline bool same_bits(const Array& a, const Array& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

/// Holds both plans of a chain against the reference, and replay against the ledger.
inline void require_every_check(const Arguments& arguments, std::int64_t offset = 0) {
  const Problem problem = chain_problem(arguments);
  Tensors tensors(problem.tensors, offset);
  fill_inputs(problem, tensors, 7 + arguments.n);
  Fast fast(offset == 0 ? Stores::automatic : Stores::streaming);
  for (const Finding& finding : verify_problem(problem, tensors, fast)) {
    INFO("n " << arguments.n << " k " << arguments.k << " a " << arguments.a << ' ' << finding.plan
              << ' ' << finding.kernel << ' ' << finding.tensor << ' ' << finding.detail);
    REQUIRE(finding.pass);
  }
}

/// For CHECK_THROWS_MATCHES: an exception whose text begins so.
inline auto begins(const std::string& text) {
  return Catch::Matchers::MessageMatches(Catch::Matchers::StartsWith(text));
}

}  // namespace opbook::ch02
