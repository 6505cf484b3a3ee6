#include "ch13_norm_rope/layer_norm.hpp"

#include <algorithm>
#include <catch2/catch_template_test_macros.hpp>
#include <cmath>
#include <limits>

#include "ch13_norm_rope/reference.hpp"
#include "ch13_norm_rope/test/operator_test.hpp"

using namespace opbook;
using namespace opbook::ch13;

namespace {

/// Memory for everything that the unfused plan stores.
template <class T>
struct Stored {
  Array x2, centered, scaled, sum_x, sum_x2, mean, rstd;
  Stored(std::int64_t m, std::int64_t n)
      : x2("x2", dtype_of<T>, {m, n}),
        centered("centered", dtype_of<T>, {m, n}),
        scaled("scaled", dtype_of<T>, {m, n}),
        sum_x("sum_x", Dtype::float32, {m}),
        sum_x2("sum_x2", Dtype::float32, {m}),
        mean("mean", Dtype::float32, {m}),
        rstd("rstd", Dtype::float32, {m}) {}
  LayerNormIntermediates<T> view() {
    return {x2.rows<T>(),      sum_x.row<float>(), sum_x2.row<float>(), mean.row<float>(),
            rstd.row<float>(), centered.rows<T>(), scaled.rows<T>()};
  }
};

template <class T>
Array run(const Array& x, const Array& g, const Array& b, float eps = 1e-6f) {
  Array y("y", dtype_of<T>, x.shape());
  Fast fast;
  cpu::layer_norm(fast, x.rows<T>(), g.row<T>(), b.row<T>(), y.rows<T>(), eps);
  return y;
}

template <class T>
void require_reference(const Array& x, const Array& g, const Array& b) {
  const reference::Reference expected = reference::layer_norm(x, g, b, 1e-6f);
  require(compare(run<T>(x, g, b), expected.expected, expected.tolerance_ulp));
}

}  // namespace

TEMPLATE_TEST_CASE("layer_norm agrees with the reference at widths that break vector loops",
                   "[layer_norm]", float, float16, bfloat16) {
  for (const std::int64_t n : {769, 1368, 3584, 5 * 1024, 513, 1, 2, 3, 7, 65536}) {
    const Array x = filled("x", dtype_of<TestType>, {3, n});
    require_reference<TestType>(x, filled("g", dtype_of<TestType>, {n}),
                                filled("b", dtype_of<TestType>, {n}));
  }
}

TEMPLATE_TEST_CASE("layer_norm's plans pass every check at ragged shapes, replay included",
                   "[layer_norm]", float, float16, bfloat16) {
  for (const std::int64_t m : {1, 2, 13}) {
    for (const std::int64_t n : {1, 2, 3, 5, 31, 33, 160, 1023}) {
      require_every_check("layer_norm", {.m = m, .n = n, .dtype = dtype_of<TestType>}, m % 2);
    }
  }
}

TEMPLATE_TEST_CASE("a row of ones has variance 0 exactly, and gives the bias", "[layer_norm]",
                   float, float16, bfloat16) {
  for (const std::int64_t n : {1, 3, 33, 769, 1368, 5120, 65537}) {
    const Array x = filled_with<TestType>("x", {2, n}, 1.0f);
    const Array g = filled("g", dtype_of<TestType>, {n}), b = filled("b", dtype_of<TestType>, {n});
    const Array y = run<TestType>(x, g, b);
    for (std::int64_t i = 0; i < 2; ++i) {
      CHECK(same_bits(y.data<TestType>() + i * n, b.raw(), b.bytes()));
    }
    // Padding counted in, or the variance from the sums of rounded squares, would divide by less.
    const Array steep = run<TestType>(x, filled_with<TestType>("g", {n}, 1000.0f), b, 1e-12f);
    CHECK(same_bits(steep.raw(), b.raw(), b.bytes()));
  }
}

TEST_CASE("layer_norm of a large mean keeps the digits that its unfused plan cancels",
          "[layer_norm]") {
  // Uniform within one of 300: the variance is 1/3, the difference of two numbers of 90000.
  constexpr std::int64_t m = 4, n = 1000;
  Array x("x", Dtype::float32, {m, n});
  fill_uniform(x, 5, 299.0f, 301.0f);
  const Array g = filled_with<float>("g", {n}, 1.0f), b = filled_with<float>("b", {n}, 0.0f);
  require_reference<float>(x, g, b);
  Stored<float> stored(m, n);
  Array y("y", Dtype::float32, {m, n});
  Fast fast;
  cpu::layer_norm_unfused(fast, x.rows<float>(), g.row<float>(), b.row<float>(), y.rows<float>(),
                          stored.view());
  const reference::Reference rstd = reference::rstd_of_sums(stored.sum_x, stored.sum_x2, n, 1e-6f);
  CHECK(compare(stored.rstd, rstd.expected, rstd.tolerance_ulp).pass);
  // What the cancellation leaves open: 7 * 2^-24 * 90000 = 0.0375 of 1/3, half as much of the root.
  for (std::int64_t i = 0; i < m; ++i) {
    const double share = rstd.expected.slack[i] / rstd.expected.value[i];
    CHECK((share > 0.05 && share < 0.07));
  }
  const reference::Reference expected = reference::layer_norm(x, g, b, 1e-6f);
  const auto largest_error = [&](const Array& actual) {
    double largest = 0;
    for (std::int64_t i = 0; i < m * n; ++i) {
      largest = std::max(largest, std::fabs(actual.value(i) - expected.expected.value[i]));
    }
    return largest;
  };
  CHECK(largest_error(y) > 10 * largest_error(run<float>(x, g, b)));
}

TEST_CASE("the slack of a cancelled variance is no blank cheque", "[layer_norm]") {
  // E[x^2] = 2, mean = 1: variance 1, which six roundings move by less than 20 * 2^-24.
  const Array sum_x = filled_with<float>("sum_x", {1}, 10.0f);
  const Array sum_x2 = filled_with<float>("sum_x2", {1}, 20.0f);
  const reference::Reference mild = reference::rstd_of_sums(sum_x, sum_x2, 10, 0);
  CHECK(mild.expected.value[0] == 1.0);
  CHECK(mild.expected.slack[0] < 20 * 0x1p-24);
  // The squares' mean is that of equal values: the sign of what is left is chance, and only the
  // float32 steps are right, 1 / sqrt(eps) here.
  const Array sum_of_equals = filled_with<float>("sum_x2", {1}, 10.0f);
  const reference::Reference lost = reference::rstd_of_sums(sum_x, sum_of_equals, 10, 1e-8f);
  CHECK(round_to(Dtype::float32, lost.expected.value[0]) == 1.0f / std::sqrt(1e-8f));
  CHECK(lost.expected.slack[0] == 0);
}

TEST_CASE("layer_norm of no rows is empty, and touches nothing", "[layer_norm]") {
  Array g = filled("g", Dtype::float32, {4}), b = filled("b", Dtype::float32, {4});
  Fast fast;
  cpu::layer_norm<Fast, float>(fast, contiguous_rows<const float>(nullptr, 0, 4), g.row<float>(),
                               b.row<float>(), contiguous_rows<float>(nullptr, 0, 4));
  cpu::layer_norm<Fast, float>(fast, contiguous_rows<const float>(nullptr, 3, 0), {}, {},
                               contiguous_rows<float>(nullptr, 3, 0));
  SUCCEED("returned");
}

TEST_CASE("layer_norm takes more rows than a grid has blocks in y", "[layer_norm]") {
  for (const std::int64_t m : {65536, 70001}) {
    require_reference<bfloat16>(filled("x", Dtype::bfloat16, {m, 8}),
                                filled("g", Dtype::bfloat16, {8}),
                                filled("b", Dtype::bfloat16, {8}));
  }
}

TEST_CASE("layer_norm's rows are the product of the leading dimensions", "[layer_norm]") {
  require_reference<float16>(filled("x", Dtype::float16, {52, 7, 64}),
                             filled("g", Dtype::float16, {64}), filled("b", Dtype::float16, {64}));
}

TEMPLATE_TEST_CASE("layer_norm gives the same bits on bases that no register is aligned to",
                   "[layer_norm]", float, float16, bfloat16) {
  const std::int64_t m = 7, n = 515;
  const Array x = filled("x", dtype_of<TestType>, {m, n});
  const Array g = filled("g", dtype_of<TestType>, {n}), b = filled("b", dtype_of<TestType>, {n});
  const Array aligned = run<TestType>(x, g, b);
  Fast fast(Stores::streaming);
  for (const std::int64_t offset : {1, 2, 3, 5}) {
    const Array moved = filled("x", dtype_of<TestType>, {m, n}, offset);
    REQUIRE(same_bits(moved, x));
    Array y("y", dtype_of<TestType>, {m, n}, offset);
    cpu::layer_norm(fast, moved.rows<TestType>(), g.row<TestType>(), b.row<TestType>(),
                    y.rows<TestType>());
    CHECK(same_bits(y, aligned));
    CHECK(y.guards_intact());
  }
}

TEST_CASE("layer_norm of slices and repeated rows is that of contiguous copies", "[layer_norm]") {
  // Columns 8 to 48 of rows of 64, in and out.
  constexpr std::int64_t m = 5, wide = 64, n = 40;
  const Array whole = filled("whole", Dtype::float16, {m, wide});
  const Array g = filled("g", Dtype::float16, {n}), b = filled("b", Dtype::float16, {n});
  Array out = filled_with<float16>("out", {m, wide}, 7.0f);
  const Rows<const float16> slice = strided_rows(whole.data<float16>() + 8, m, n, wide);
  Fast fast;
  cpu::layer_norm(fast, slice, g.row<float16>(), b.row<float16>(),
                  strided_rows(out.data<float16>() + 8, m, n, wide));
  Array copy("copy", Dtype::float16, {m, n});
  for (std::int64_t i = 0; i < m; ++i) {
    std::memcpy(copy.data<float16>() + i * n, slice.row(i).data, n * 2);
  }
  const Array y = run<float16>(copy, g, b);
  for (std::int64_t i = 0; i < m; ++i) {
    CHECK(same_bits(out.data<float16>() + i * wide + 8, y.data<float16>() + i * n, n * 2));
    for (std::int64_t j = 0; j < wide; ++j) {
      if (j < 8 || j >= 48) REQUIRE(out.value(i * wide + j) == 7.0);
    }
  }
  Array repeated("y", Dtype::float16, {4, n});
  cpu::layer_norm(fast, strided_rows(copy.data<float16>(), 4, n, 0), g.row<float16>(),
                  b.row<float16>(), repeated.rows<float16>());
  for (int i = 0; i < 4; ++i) {
    CHECK(same_bits(repeated.data<float16>() + i * n, y.data<float16>(), n * 2));
  }
}

TEMPLATE_TEST_CASE("layer_norm in place gives the bits that it gives out of place", "[layer_norm]",
                   float, float16, bfloat16) {
  for (const Stores stores : {Stores::ordinary, Stores::streaming}) {
    Array x = filled("x", dtype_of<TestType>, {9, 770});
    const Array g = filled("g", dtype_of<TestType>, {770});
    const Array b = filled("b", dtype_of<TestType>, {770});
    const Array y = run<TestType>(x, g, b);
    Fast fast(stores);
    cpu::layer_norm(fast, x.rows<TestType>(), g.row<TestType>(), b.row<TestType>(),
                    x.rows<TestType>());
    CHECK(same_bits(x, y));
  }
}

TEST_CASE("a row of one value without eps is NaN, as the formula gives", "[layer_norm]") {
  Array x = filled("x", Dtype::float32, {2, 33});
  for (int j = 0; j < 33; ++j) x.data<float>()[j] = 1.0f;
  const Array g = filled("g", Dtype::float32, {33}), b = filled("b", Dtype::float32, {33});
  const Array y = run<float>(x, g, b, 0.0f);
  for (int j = 0; j < 33; ++j) {
    CHECK(std::isnan(y.value(j)));
    CHECK(std::isfinite(y.value(33 + j)));  // the row beside it does not notice
  }
}

TEMPLATE_TEST_CASE("NaN and Inf stay in their row of layer_norm", "[layer_norm]", float, float16,
                   bfloat16) {
  Array x = filled("x", dtype_of<TestType>, {4, 100});
  const Array g = filled("g", dtype_of<TestType>, {100}),
              b = filled("b", dtype_of<TestType>, {100});
  const Array clean = run<TestType>(x, g, b);
  x.data<TestType>()[117] = from_float<TestType>(std::numeric_limits<float>::quiet_NaN());
  x.data<TestType>()[250] = from_float<TestType>(std::numeric_limits<float>::infinity());
  const Array y = run<TestType>(x, g, b);
  for (int j = 0; j < 100; ++j) REQUIRE(y.value(j) == clean.value(j));
  for (int j = 100; j < 300; ++j) REQUIRE(std::isnan(y.value(j)));  // Inf - Inf, and 0 * Inf
  for (int j = 300; j < 400; ++j) REQUIRE(y.value(j) == clean.value(j));
}

TEST_CASE("layer_norm refuses what it cannot do, and names it", "[layer_norm]") {
  Array x = filled("x", Dtype::float32, {4, 8}), y("y", Dtype::float32, {4, 8});
  Array g = filled("g", Dtype::float32, {8}), b = filled("b", Dtype::float32, {8});
  Fast fast;
  Stored<float> stored(4, 8);
  const auto call = [&](Rows<const float> in, Row<const float> gain, Row<const float> bias,
                        Rows<float> out, float eps = 1e-6f) {
    CHECK_THROWS_AS(cpu::layer_norm_unfused(fast, in, gain, bias, out, stored.view(), eps),
                    ArgumentError);
    cpu::layer_norm(fast, in, gain, bias, out, eps);
  };
  const Rows<float> in = x.rows<float>(), out = y.rows<float>();
  const Row<float> gain = g.row<float>(), bias = b.row<float>();
  CHECK_THROWS_MATCHES(call(in, gain.slice(0, 7), bias, out), ArgumentError,
                       begins("g: got 7 elements; allowed: 8"));
  CHECK_THROWS_MATCHES(call(in, gain, bias.slice(0, 7), out), ArgumentError,
                       begins("b: got 7 elements; allowed: 8"));
  CHECK_THROWS_MATCHES(call(in, gain, bias, contiguous_rows(out.data, 3, 8)), ArgumentError,
                       begins("y: got [3, 8]; allowed: [4, 8]"));
  CHECK_THROWS_MATCHES(
      call(contiguous_rows(in.data, 3, 8), gain, bias, contiguous_rows(in.data + 8, 3, 8)),
      ArgumentError, begins("y: overlaps x"));
  CHECK_THROWS_MATCHES(
      call(contiguous_rows(in.data, 1, 8), gain, bias, contiguous_rows(gain.data, 1, 8)),
      ArgumentError, begins("y: overlaps g"));
  CHECK_THROWS_MATCHES(
      call(contiguous_rows(in.data, 1, 8), gain, bias, contiguous_rows(bias.data, 1, 8)),
      ArgumentError, begins("y: overlaps b"));
  CHECK_THROWS_MATCHES(call(in, gain, bias, strided_rows(out.data, 4, 8, 7)), ArgumentError,
                       begins("y: got strides"));
  for (const float eps :
       {-1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    CHECK_THROWS_MATCHES(call(in, gain, bias, out, eps), ArgumentError, begins("eps: got"));
  }
  Stored<float> short_one(3, 8);
  CHECK_THROWS_MATCHES(cpu::layer_norm_unfused(fast, in, gain, bias, out, short_one.view()),
                       ArgumentError, begins("x2: got [3, 8]; allowed: [4, 8]"));
}
