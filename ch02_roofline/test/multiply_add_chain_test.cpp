#include "ch02_roofline/multiply_add_chain.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "ch02_roofline/test/chain_test.hpp"

using namespace opbook;
using namespace opbook::ch02;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// One value through a chain, fused or not.
template <class T>
double after(float x, float a, float b, std::int64_t k, bool fused = true) {
  Array in("x", dtype_of<T>, {1}), out("y", dtype_of<T>, {1});
  in.data<T>()[0] = from_float<T>(x);
  Fast fast;
  if (fused) {
    cpu::multiply_add_chain(fast, in.row<T>(), a, b, k, out.row<T>());
  } else {
    cpu::multiply_add_chain_unfused(fast, in.row<T>(), a, b, k, out.row<T>());
  }
  return out.value(0);
}

}  // namespace

TEMPLATE_TEST_CASE("the chain passes every check at lengths that break loops, replay included",
                   "[multiply_add_chain]", float, float16, bfloat16) {
  // Around a register, a block of twelve, a piece of the vector, and several pieces.
  for (const std::int64_t n :
       {1, 2, 3, 7, 31, 33, 95, 96, 97, 191, 193, 513, 4095, 4096, 4097, 8192, 20000}) {
    for (const std::int64_t offset : {0, 1}) {
      require_every_check({.n = n, .k = n % 7 + 1, .dtype = dtype_of<TestType>}, offset);
    }
  }
}

TEST_CASE("the chain passes every check over the whole sweep of k", "[multiply_add_chain]") {
  for (const Dtype dtype : dtypes) {
    for (std::int64_t k = 1; k <= 4096; k *= 2) {
      require_every_check({.n = 200, .k = k, .dtype = dtype});
    }
  }
}

TEST_CASE("the chain takes any a and b", "[multiply_add_chain]") {
  for (const float a : {0.0f, 1.0f, -1.0f, 0.5f, 1.5f, -3.0f, 1e-30f, 1e30f}) {
    for (const float b : {0.0f, -1.0f, 1e-40f, 1e30f}) {
      for (const Dtype dtype : dtypes) {
        require_every_check({.n = 300, .k = 9, .dtype = dtype, .a = a, .b = b});
      }
    }
  }
}

TEST_CASE("random chains pass every check", "[multiply_add_chain]") {
  const char* const asked = std::getenv("OPBOOK_SEED");
  const std::uint64_t first = asked != nullptr ? std::strtoull(asked, nullptr, 10) : 1;
  for (std::uint64_t seed = first; seed < first + (asked != nullptr ? 1 : 60); ++seed) {
    INFO("OPBOOK_SEED=" << seed);
    const auto draw = [&](const char* what, std::int64_t low, std::int64_t high) {
      return low + static_cast<std::int64_t>(random_bits(seed, what, 0) % (high - low + 1));
    };
    const Arguments arguments{
        .n = draw("n", 1, 6000),
        .k = draw("k", 1, 40),
        .dtype = dtypes[draw("dtype", 0, 2)],
        .a = static_cast<float>(draw("a", -2000, 2000)) * 0x1p-10f,
        .b = static_cast<float>(draw("b", -4000, 4000)) * 0x1p-10f,
    };
    require_every_check(arguments, draw("offset", 0, 5));
  }
}

TEST_CASE("the sweep stays in range however long the chain is", "[multiply_add_chain]") {
  const Arguments arguments;
  // The fixed point b / (1 - a): x comes nearer to it by |a| with each step, from the other side.
  const double fixed_point = arguments.b / (1.0 - static_cast<double>(arguments.a));
  for (const float x : {-3.5f, 0.0f, 3.5f}) {
    for (std::int64_t k = 1; k <= 4096; k *= 2) {
      const double exact =
          fixed_point +
          std::pow(static_cast<double>(arguments.a), static_cast<double>(k)) * (x - fixed_point);
      INFO("x " << x << " k " << k);
      CHECK(std::fabs(after<float>(x, arguments.a, arguments.b, k) - exact) < 4096 * 4 * 0x1p-24);
      CHECK(std::fabs(exact) <= 5);
    }
  }
  // So long a chain still tells one x from another.
  CHECK(std::fabs(after<float>(3.5f, arguments.a, arguments.b, 4096) -
                  after<float>(-3.5f, arguments.a, arguments.b, 4096)) > 2);
}

TEST_CASE("a step is one fused multiply-add: rounded once", "[multiply_add_chain]") {
  // (1 + 2^-12)^2 - (1 + 2^-11) = 2^-24, of which a rounded product leaves nothing.
  CHECK(after<float>(1 + 0x1p-12f, 1 + 0x1p-12f, -(1 + 0x1p-11f), 1) == 0x1p-24);
}

TEST_CASE("unfused rounds each step to the dtype, fused the last one alone",
          "[multiply_add_chain]") {
  // In bfloat16 1 + 2^-9 is 1: what is added 64 times never arrives, or all together.
  CHECK(after<bfloat16>(1, 1, 0x1p-9f, 64, false) == 1);
  CHECK(after<bfloat16>(1, 1, 0x1p-9f, 64) == 1.125);
  CHECK(after<float16>(1, 1, 0x1p-12f, 64, false) == 1);
  CHECK(after<float16>(1, 1, 0x1p-12f, 64) == 1 + 0x1p-6);
  CHECK(after<float>(1, 1, 0x1p-12f, 64, false) == 1 + 0x1p-6);
}

TEST_CASE("overflow, underflow and NaN are those of IEEE arithmetic", "[multiply_add_chain]") {
  for (const bool fused : {true, false}) {
    INFO((fused ? "fused" : "unfused"));
    // Overflow: to an Inf of the right sign, which stays one.
    CHECK(after<float>(1, 2, 0, 127, fused) == 0x1p127);
    CHECK(after<float>(1, 2, 0, 128, fused) == infinity);
    CHECK(after<float>(-1, 2, 0, 200, fused) == -infinity);
    CHECK(after<float>(1, -2, 0, 129, fused) == -infinity);
    CHECK(after<float>(infinity, 0.5f, 1, 3, fused) == infinity);
    CHECK(after<bfloat16>(1, 2, 0, 128, fused) == infinity);
    CHECK(after<float16>(1, 2, 0, 16, fused) == infinity);
    // Inf - Inf, 0 * Inf, and what was NaN before.
    CHECK(std::isnan(after<float>(infinity, 1, -infinity, 1, fused)));
    CHECK(std::isnan(after<float>(infinity, 0, 1, 1, fused)));
    CHECK(std::isnan(after<float>(std::nanf(""), 0, 1, 5, fused)));
    CHECK(std::isnan(after<float16>(std::nanf(""), 0, 1, 5, fused)));
    CHECK(std::isnan(after<bfloat16>(std::nanf(""), 0, 1, 5, fused)));
    CHECK(std::isnan(after<float>(1, std::nanf(""), 1, 1, fused)));
    // Gradual underflow, then zero; ties to even.
    CHECK(after<float>(1, 0.5f, 0, 149, fused) == 0x1p-149);
    CHECK(after<float>(1, 0.5f, 0, 150, fused) == 0);
    CHECK(after<float>(0x1.8p0f, 0.5f, 0, 149, fused) == 0x1p-148);
    CHECK(after<float16>(1, 0.5f, 0, 24, fused) == 0x1p-24);
    CHECK(after<float16>(1, 0.5f, 0, 25, fused) == 0);
    CHECK(std::signbit(after<float>(-1, 0.5f, -0.0f, 400, fused)));
  }
  // float32 in between: what float16 cannot hold comes back, fused.
  CHECK(after<float16>(60000, 2, -60000, 3) == 60000);
  CHECK(after<float16>(60000, 2, 0, 1, false) == infinity);
}

TEST_CASE("chains over special values pass every check", "[multiply_add_chain]") {
  over_special_values([](const Problem& problem, Tensors& tensors) {
    Fast fast;
    for (const Finding& finding : verify_problem(problem, tensors, fast)) {
      INFO(finding.plan << ' ' << finding.kernel << ' ' << finding.detail);
      CHECK(finding.pass);
    }
  });
}

TEMPLATE_TEST_CASE("NaN and Inf stay where they stand", "[multiply_add_chain]", float, float16,
                   bfloat16) {
  constexpr std::int64_t n = 5000;
  Array x = filled("x", dtype_of<TestType>, n), clean("y", dtype_of<TestType>, {n}),
        y("y", dtype_of<TestType>, {n});
  Fast fast;
  const auto run = [&](Array& out) {
    cpu::multiply_add_chain(fast, x.row<TestType>(), -0.5f, 1.0f, 5, out.row<TestType>());
  };
  run(clean);
  x.data<TestType>()[10] = from_float<TestType>(std::nanf(""));
  x.data<TestType>()[4095] = from_float<TestType>(infinity);
  x.data<TestType>()[n - 1] = from_float<TestType>(-infinity);
  run(y);
  CHECK(std::isnan(y.value(10)));
  CHECK(y.value(4095) == -infinity);
  CHECK(y.value(n - 1) == infinity);
  for (std::int64_t i = 0; i < n; ++i) {
    if (i != 10 && i != 4095 && i != n - 1) REQUIRE(y.value(i) == clean.value(i));
  }
}

TEMPLATE_TEST_CASE("any base and any way to store give the same bits, in place too",
                   "[multiply_add_chain]", float, float16, bfloat16) {
  constexpr std::int64_t n = 9001, k = 6;
  const Array x = filled("x", dtype_of<TestType>, n);
  Array aligned("y", dtype_of<TestType>, {n}), unfused("y", dtype_of<TestType>, {n});
  Fast ordinary(Stores::ordinary), streaming(Stores::streaming);
  cpu::multiply_add_chain(ordinary, x.row<TestType>(), 0.7f, 0.1f, k, aligned.row<TestType>());
  cpu::multiply_add_chain_unfused(ordinary, x.row<TestType>(), 0.7f, 0.1f, k,
                                  unfused.row<TestType>());
  for (const std::int64_t offset : {0, 1, 2, 3, 5}) {
    Array moved = filled("x", dtype_of<TestType>, n, offset);
    Array y("y", dtype_of<TestType>, {n}, offset + 1);
    cpu::multiply_add_chain(streaming, moved.row<TestType>(), 0.7f, 0.1f, k, y.row<TestType>());
    CHECK(same_bits(y, aligned));
    CHECK(y.guards_intact());
    cpu::multiply_add_chain_unfused(streaming, moved.row<TestType>(), 0.7f, 0.1f, k,
                                    moved.row<TestType>());
    CHECK(same_bits(moved, unfused));
    moved = filled("x", dtype_of<TestType>, n, offset);
    cpu::multiply_add_chain(streaming, moved.row<TestType>(), 0.7f, 0.1f, k, moved.row<TestType>());
    CHECK(same_bits(moved, aligned));
    CHECK(moved.guards_intact());
  }
}

TEST_CASE("a chain over nothing does nothing", "[multiply_add_chain]") {
  Fast fast;
  cpu::multiply_add_chain<Fast, float>(fast, {}, 2.0f, 1.0f, 3, {});
  cpu::multiply_add_chain_unfused<Fast, float>(fast, {}, 2.0f, 1.0f, 3, {});
  SUCCEED("returned");
}

TEST_CASE("the chain refuses what it cannot do, and names it", "[multiply_add_chain]") {
  Array x = filled("x", Dtype::float32, 8), y("y", Dtype::float32, {8});
  Fast fast;
  const Row<float> in = x.row<float>(), out = y.row<float>();
  for (const bool fused : {true, false}) {
    const auto call = [&](Row<const float> from, std::int64_t k, Row<float> to) {
      if (fused) {
        cpu::multiply_add_chain(fast, from, 2.0f, 1.0f, k, to);
      } else {
        cpu::multiply_add_chain_unfused(fast, from, 2.0f, 1.0f, k, to);
      }
    };
    CHECK_THROWS_MATCHES(call(in, 1, out.slice(0, 7)), ArgumentError,
                         begins("y: got 7 elements; allowed: 8"));
    CHECK_THROWS_MATCHES(call(in, 0, out), ArgumentError, begins("k: got 0; allowed: "));
    CHECK_THROWS_MATCHES(call(in, -1, out), ArgumentError, begins("k: got -1; allowed: "));
    CHECK_THROWS_MATCHES(call(in.slice(0, 7), 1, in.slice(1, 7)), ArgumentError,
                         begins("y: overlaps x"));
  }
}
