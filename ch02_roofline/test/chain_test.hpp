#pragma once

// What the tests of the chain share.

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

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

/// Chains over zeros, infinities, NaN and the ends of each format's range, with their tensors
/// filled, that overflow, underflow and lead to NaN.
template <class Check>
void over_special_values(Check check) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> special = {0.0f,          -0.0f,     inf,      -inf,
                                      std::nanf(""), 1.0f,      0x1p127f, -0x1p127f,
                                      0x1p-126f,     0x1p-149f, 65504.0f, 0x1p-24f};
  const std::int64_t n = static_cast<std::int64_t>(special.size());
  for (const Dtype dtype : dtypes) {
    for (const auto& [a, b] : {std::pair(2.0f, 0.0f),
                               {0.5f, 0.0f},
                               {-1.0f, 1.0f},
                               {0.0f, 1.0f},
                               {1.5f, -inf},
                               {1.0f, 0x1p-149f}}) {
      for (const std::int64_t k : {1, 2, 30, 200}) {
        const Problem problem = chain_problem({.n = n, .k = k, .dtype = dtype, .a = a, .b = b});
        Tensors tensors(problem.tensors);
        visit_input_dtype(dtype, [&]<class T>() {
          const Row<T> x = tensors.row<T>("x");
          for (std::int64_t i = 0; i < n; ++i) x.data[i] = from_float<T>(special[i]);
        });
        INFO(name_of(dtype) << " a " << a << " b " << b << " k " << k);
        check(problem, tensors);
      }
    }
  }
}

/// For CHECK_THROWS_MATCHES: an exception whose text begins so.
inline auto begins(const std::string& text) {
  return Catch::Matchers::MessageMatches(Catch::Matchers::StartsWith(text));
}

}  // namespace opbook::ch02
