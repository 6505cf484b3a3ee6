#pragma once

// What the tests of the single operators share.

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ch13_norm_rope/operators.hpp"
#include "common/random.hpp"
#include "common/verify_problem.hpp"

namespace opbook::ch13 {

/// A random tensor: a vector around one, or a matrix whose rows differ in scale.
inline Array filled(const char* name, Dtype dtype, std::vector<std::int64_t> shape,
                    std::int64_t offset = 0) {
  Array array(name, dtype, std::move(shape), offset);
  if (array.shape().size() == 1) {
    fill_weight(array, 3);
  } else {
    fill_activation(array, 3);
  }
  return array;
}

template <class T>
Array filled_with(const char* name, std::vector<std::int64_t> shape, float value) {
  Array array(name, dtype_of<T>, std::move(shape));
  for (std::int64_t i = 0; i < array.elements(); ++i) array.data<T>()[i] = from_float<T>(value);
  return array;
}

inline bool same_bits(const void* a, const void* b, std::int64_t bytes) {
  return std::memcmp(a, b, bytes) == 0;
}
inline bool same_bits(const Array& a, const Array& b) {
  return a.bytes() == b.bytes() && same_bits(a.raw(), b.raw(), a.bytes());
}

/// Both plans of an operator of the table at one size: every kernel against its reference, replay
/// against the ledger.
inline void require_every_check(const char* op, const Arguments& arguments,
                                std::int64_t offset = 0) {
  const Problem problem = find_operator(op)->make_problem(arguments);
  Tensors tensors(problem.tensors, offset);
  fill_inputs(problem, tensors, 7 + arguments.n);
  Fast fast(offset == 0 ? Stores::automatic : Stores::streaming);
  for (const Finding& finding : verify_problem(problem, tensors, fast)) {
    INFO(op << " m " << arguments.m << " n " << arguments.n << ' ' << finding.plan << ' '
            << finding.kernel << ' ' << finding.tensor << ' ' << finding.detail);
    REQUIRE(finding.pass);
  }
}

/// For CHECK_THROWS_MATCHES: an exception whose text begins so.
inline auto begins(const std::string& text) {
  return Catch::Matchers::MessageMatches(Catch::Matchers::StartsWith(text));
}

}  // namespace opbook::ch13
