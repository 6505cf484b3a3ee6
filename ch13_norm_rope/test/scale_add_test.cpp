#include "ch13_norm_rope/scale_add.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <cmath>
#include <limits>

#include "ch13_norm_rope/reference.hpp"
#include "ch13_norm_rope/test/operator_test.hpp"

using namespace opbook;
using namespace opbook::ch13;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

}  // namespace

TEMPLATE_TEST_CASE(
    "scale_add's plans pass every check at lengths that break loops, replay included",
    "[scale_add]", float, float16, bfloat16) {
  // Around a register, a piece of the vector, and several pieces.
  for (const std::int64_t n : {1, 2, 3, 7, 31, 33, 513, 769, 4095, 4096, 4097, 8192, 40000}) {
    for (const std::int64_t offset : {0, 1}) {
      require_every_check("scale_add", {.n = n, .dtype = dtype_of<TestType>}, offset);
    }
  }
}

TEST_CASE("scale_add takes any scale", "[scale_add]") {
  for (const float scale : {0.0f, 1.0f, -3.0f, 1e-30f, 1e30f}) {
    require_every_check("scale_add", {.n = 5000, .dtype = Dtype::float32, .scale = scale});
    require_every_check("scale_add", {.n = 5000, .dtype = Dtype::float16, .scale = scale});
  }
}

TEST_CASE("scale_add of nothing does nothing", "[scale_add]") {
  Fast fast;
  cpu::scale_add<Fast, float>(fast, {}, 2.0f, {}, {});
  cpu::scale_add_unfused<Fast, float>(fast, {}, 2.0f, {}, {}, {});
  SUCCEED("returned");
}

TEST_CASE("scale_add rounds once where it is fused and twice where it is not", "[scale_add]") {
  // x * a = 1 + 2^-11 + ..., which a float32 cannot hold: the product's last bits are all that b
  // leaves of it.
  const Array x = filled_with<float>("x", {1}, 1.0f + 0x1p-12f);
  const Array b = filled_with<float>("b", {1}, -(1.0f + 0x1p-11f));
  Array y("y", Dtype::float32, {1}), t("t", Dtype::float32, {1});
  Fast fast;
  cpu::scale_add(fast, x.row<float>(), 1.0f + 0x1p-12f, b.row<float>(), y.row<float>());
  CHECK(y.value(0) == 0x1p-24);
  cpu::scale_add_unfused(fast, x.row<float>(), 1.0f + 0x1p-12f, b.row<float>(), y.row<float>(),
                         t.row<float>());
  CHECK(y.value(0) == 0.0);
}

TEMPLATE_TEST_CASE("scale_add gives the same bits on bases that no register is aligned to",
                   "[scale_add]", float, float16, bfloat16) {
  constexpr std::int64_t n = 9001;
  const Array x = filled("x", dtype_of<TestType>, {n}), b = filled("b", dtype_of<TestType>, {n});
  Array aligned("y", dtype_of<TestType>, {n});
  Fast fast(Stores::streaming);
  cpu::scale_add(fast, x.row<TestType>(), 0.7f, b.row<TestType>(), aligned.row<TestType>());
  for (const std::int64_t offset : {1, 2, 3, 5}) {
    const Array moved = filled("x", dtype_of<TestType>, {n}, offset);
    REQUIRE(same_bits(moved, x));
    Array y("y", dtype_of<TestType>, {n}, offset + 1);
    cpu::scale_add(fast, moved.row<TestType>(), 0.7f, b.row<TestType>(), y.row<TestType>());
    CHECK(same_bits(y, aligned));
    CHECK(y.guards_intact());
  }
}

TEMPLATE_TEST_CASE("scale_add in place of either input gives the bits that it gives elsewhere",
                   "[scale_add]", float, float16, bfloat16) {
  constexpr std::int64_t n = 9001;
  const Array x = filled("x", dtype_of<TestType>, {n}), b = filled("b", dtype_of<TestType>, {n});
  Array y("y", dtype_of<TestType>, {n}), t("t", dtype_of<TestType>, {n});
  Array unfused("y", dtype_of<TestType>, {n});
  for (const Stores stores : {Stores::ordinary, Stores::streaming}) {
    Fast fast(stores);
    cpu::scale_add(fast, x.row<TestType>(), 0.7f, b.row<TestType>(), y.row<TestType>());
    cpu::scale_add_unfused(fast, x.row<TestType>(), 0.7f, b.row<TestType>(),
                           unfused.row<TestType>(), t.row<TestType>());
    for (const bool over_x : {true, false}) {
      Array x_too = filled("x", dtype_of<TestType>, {n}),
            b_too = filled("b", dtype_of<TestType>, {n});
      Array& over = over_x ? x_too : b_too;
      cpu::scale_add(fast, x_too.row<TestType>(), 0.7f, b_too.row<TestType>(),
                     over.row<TestType>());
      CHECK(same_bits(over, y));

      x_too = filled("x", dtype_of<TestType>, {n});
      b_too = filled("b", dtype_of<TestType>, {n});
      cpu::scale_add_unfused(fast, x_too.row<TestType>(), 0.7f, b_too.row<TestType>(),
                             over.row<TestType>(), t.row<TestType>());
      CHECK(same_bits(over, unfused));
    }
  }
}

TEMPLATE_TEST_CASE("scale_add lets NaN and Inf through, where they stand", "[scale_add]", float,
                   float16, bfloat16) {
  constexpr std::int64_t n = 5000;
  Array x = filled("x", dtype_of<TestType>, {n}), b = filled("b", dtype_of<TestType>, {n});
  Array clean("y", dtype_of<TestType>, {n}), y("y", dtype_of<TestType>, {n});
  Fast fast;
  cpu::scale_add(fast, x.row<TestType>(), 2.0f, b.row<TestType>(), clean.row<TestType>());
  x.data<TestType>()[10] = from_float<TestType>(std::nanf(""));
  b.data<TestType>()[11] = from_float<TestType>(std::nanf(""));
  x.data<TestType>()[12] = from_float<TestType>(-infinity);
  b.data<TestType>()[13] = from_float<TestType>(infinity);
  x.data<TestType>()[14] = from_float<TestType>(infinity);
  b.data<TestType>()[14] = from_float<TestType>(-infinity);
  cpu::scale_add(fast, x.row<TestType>(), 2.0f, b.row<TestType>(), y.row<TestType>());
  CHECK(std::isnan(y.value(10)));
  CHECK(std::isnan(y.value(11)));
  CHECK(y.value(12) == -infinity);
  CHECK(y.value(13) == infinity);
  CHECK(std::isnan(y.value(14)));
  for (std::int64_t i = 0; i < n; ++i) {
    if (i < 10 || i > 14) REQUIRE(y.value(i) == clean.value(i));
  }
  cpu::scale_add(fast, x.row<TestType>(), std::nanf(""), b.row<TestType>(), y.row<TestType>());
  for (std::int64_t i = 0; i < n; ++i) REQUIRE(std::isnan(y.value(i)));
}

TEST_CASE("scale_add refuses what it cannot do, and names it", "[scale_add]") {
  Array x = filled("x", Dtype::float32, {8}), b = filled("b", Dtype::float32, {8});
  Array y("y", Dtype::float32, {8}), t("t", Dtype::float32, {8});
  Fast fast;
  const auto call = [&](Row<const float> in, Row<const float> bias, Row<float> out) {
    CHECK_THROWS_AS(
        cpu::scale_add_unfused(fast, in, 2.0f, bias, out, Row<float>{t.data<float>(), out.size}),
        ArgumentError);
    cpu::scale_add(fast, in, 2.0f, bias, out);
  };
  const Row<float> whole = y.row<float>();
  CHECK_THROWS_MATCHES(call(x.row<float>(), {b.data<float>(), 7}, whole), ArgumentError,
                       begins("b: got 7 elements; allowed: 8"));
  CHECK_THROWS_MATCHES(call(x.row<float>(), b.row<float>(), whole.slice(0, 7)), ArgumentError,
                       begins("y: got 7 elements; allowed: 8"));
  CHECK_THROWS_MATCHES(call({x.data<float>(), 7}, {b.data<float>(), 7}, {x.data<float>() + 1, 7}),
                       ArgumentError, begins("y: overlaps x"));
  CHECK_THROWS_MATCHES(call({x.data<float>(), 7}, {b.data<float>(), 7}, {b.data<float>() + 1, 7}),
                       ArgumentError, begins("y: overlaps b"));
  CHECK_THROWS_MATCHES(cpu::scale_add_unfused(fast, x.row<float>(), 2.0f, b.row<float>(), whole,
                                              t.row<float>().slice(0, 7)),
                       ArgumentError, begins("t: got 7 elements; allowed: 8"));
}
