#include "ch13_norm_rope/add_rms_norm.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <cmath>
#include <limits>

#include "ch13_norm_rope/reference.hpp"
#include "ch13_norm_rope/test/operator_test.hpp"

using namespace opbook;
using namespace opbook::ch13;

namespace {

struct Outputs {
  Array s, y;
};

template <class T>
Outputs run(const Array& x, const Array& r, const Array& w, const RmsNormOptions& options = {}) {
  Outputs out{Array("s", dtype_of<T>, x.shape()), Array("y", dtype_of<T>, x.shape())};
  Fast fast;
  cpu::add_rms_norm(fast, x.rows<T>(), r.rows<T>(), w.row<T>(), out.s.rows<T>(), out.y.rows<T>(),
                    options);
  return out;
}

template <class T>
void require_reference(const Array& x, const Array& r, const Array& w) {
  const Outputs out = run<T>(x, r, w);
  const reference::Reference s = reference::add(x, r);
  require(compare(out.s, s.expected, s.tolerance_ulp));
  const reference::Reference y = reference::rms_norm(out.s, w, {});
  require(compare(out.y, y.expected, y.tolerance_ulp));
}

}  // namespace

TEST_CASE("add_rms_norm's ledger, by hand", "[add_rms_norm]") {
  const Case plans =
      add_rms_norm_case({.m = 7, .n = 10, .dtype = Dtype::bfloat16}, Convention::exact);
  // x, r, s and y 140 bytes each, w 20, a vector of m in float32 28.
  REQUIRE(plans.unfused.kernels.size() == 7);
  CHECK(plans.unfused.kernels[0].name == "add");
  CHECK(plans.unfused.kernels[0].read_bytes() == 140 + 140);
  CHECK(plans.unfused.kernels[0].write_bytes() == 140);
  CHECK(plans.unfused.kernels[0].flops == 70);
  const Case norm = rms_norm_case({.m = 7, .n = 10, .dtype = Dtype::bfloat16}, Convention::exact);
  for (std::size_t k = 0; k < 6; ++k) {
    const Kernel &kernel = plans.unfused.kernels[k + 1], &expected = norm.unfused.kernels[k];
    CHECK(kernel.name == expected.name);
    CHECK(kernel.read_bytes() == expected.read_bytes());
    CHECK(kernel.write_bytes() == expected.write_bytes());
    CHECK(kernel.flops == expected.flops);
  }
  CHECK(plans.unfused.kernels[1].reads[0].name == "s");
  CHECK(plans.unfused.kernels[5].reads[0].name == "s");
  CHECK(plans.unfused.flops() == 5 * 70 + 3 * 7);
  REQUIRE(plans.fused.kernels.size() == 1);
  CHECK(plans.fused.read_bytes() == 140 + 140 + 20);
  CHECK(plans.fused.write_bytes() == 140 + 140);
  CHECK(plans.fused.flops() == 5 * 70 + 3 * 7);
}

TEST_CASE("add_rms_norm does not exist under the book convention", "[add_rms_norm]") {
  CHECK_THROWS_MATCHES(add_rms_norm_case({.m = 7, .n = 10}, Convention::book), ArgumentError,
                       begins("convention: got book, which has no add_rms_norm; allowed: exact"));
}

TEMPLATE_TEST_CASE("add_rms_norm agrees with the reference at widths that break vector loops",
                   "[add_rms_norm]", float, float16, bfloat16) {
  for (const std::int64_t n : {769, 1368, 3584, 5 * 1024, 513, 1, 2, 3, 7, 65536}) {
    require_reference<TestType>(filled("x", dtype_of<TestType>, {3, n}),
                                filled("r", dtype_of<TestType>, {3, n}),
                                filled("w", dtype_of<TestType>, {n}));
  }
}

TEMPLATE_TEST_CASE("add_rms_norm's plans pass every check at ragged shapes, replay included",
                   "[add_rms_norm]", float, float16, bfloat16) {
  for (const std::int64_t m : {1, 2, 13}) {
    for (const std::int64_t n : {1, 5, 31, 33, 160, 1023}) {
      for (const int weight_offset : {0, 1}) {
        const Rounding rounding = m == 2 ? Rounding::before_weight : Rounding::once;
        require_every_check("add_rms_norm",
                            {.m = m,
                             .n = n,
                             .dtype = dtype_of<TestType>,
                             .rounding = rounding,
                             .weight_offset = weight_offset},
                            m % 2);
      }
    }
  }
}

TEMPLATE_TEST_CASE("add_rms_norm's y is rms_norm of the s that comes out, bit for bit",
                   "[add_rms_norm]", float, float16, bfloat16) {
  const Array x = filled("x", dtype_of<TestType>, {20, 1000});
  const Array r = filled("r", dtype_of<TestType>, {20, 1000});
  const Array w = filled("w", dtype_of<TestType>, {1000});
  Array y("y", dtype_of<TestType>, {20, 1000});
  Fast fast;
  for (const Rounding rounding : {Rounding::once, Rounding::before_weight}) {
    for (const int offset : {0, 1}) {
      const RmsNormOptions options{.rounding = rounding, .weight_offset = offset};
      const Outputs out = run<TestType>(x, r, w, options);
      cpu::rms_norm(fast, out.s.rows<TestType>(), w.row<TestType>(), y.rows<TestType>(), options);
      CHECK(same_bits(out.y, y));
    }
  }
}

TEST_CASE("add_rms_norm rounds the sum before it is normalised", "[add_rms_norm]") {
  // 256 + 1 is 256 in bfloat16: what was lost must not come back in y.
  const Array x = filled_with<bfloat16>("x", {1, 64}, 256.0f);
  const Array w = filled("w", Dtype::bfloat16, {64});
  const Outputs lost = run<bfloat16>(x, filled_with<bfloat16>("r", {1, 64}, 1.0f), w);
  const Outputs none = run<bfloat16>(x, filled_with<bfloat16>("r", {1, 64}, 0.0f), w);
  CHECK(lost.s.value(0) == 256.0);
  CHECK(same_bits(lost.y, none.y));
}

TEST_CASE("add_rms_norm of no rows is empty, and touches nothing", "[add_rms_norm]") {
  const Array w = filled("w", Dtype::float32, {4});
  Fast fast;
  const auto none = contiguous_rows<float>(nullptr, 0, 4);
  cpu::add_rms_norm(fast, none, none, w.row<float>(), none, none);
  const auto narrow = contiguous_rows<float>(nullptr, 3, 0);
  cpu::add_rms_norm(fast, narrow, narrow, {}, narrow, narrow);
  SUCCEED("returned");
}

TEST_CASE("add_rms_norm takes more rows than a grid has blocks in y", "[add_rms_norm]") {
  for (const std::int64_t m : {65536, 70001}) {
    require_reference<bfloat16>(filled("x", Dtype::bfloat16, {m, 8}),
                                filled("r", Dtype::bfloat16, {m, 8}),
                                filled("w", Dtype::bfloat16, {8}));
  }
}

TEST_CASE("add_rms_norm's rows are the product of the leading dimensions", "[add_rms_norm]") {
  require_reference<bfloat16>(filled("x", Dtype::bfloat16, {52, 7, 64}),
                              filled("r", Dtype::bfloat16, {52, 7, 64}),
                              filled("w", Dtype::bfloat16, {64}));
}

TEMPLATE_TEST_CASE("add_rms_norm gives the same bits on bases that no register is aligned to",
                   "[add_rms_norm]", float, float16, bfloat16) {
  const std::int64_t m = 7, n = 515;
  const Array x = filled("x", dtype_of<TestType>, {m, n}),
              r = filled("r", dtype_of<TestType>, {m, n});
  const Array w = filled("w", dtype_of<TestType>, {n});
  const Outputs aligned = run<TestType>(x, r, w);
  Fast fast(Stores::streaming);
  for (const std::int64_t offset : {1, 2, 3, 5}) {
    const Array moved = filled("x", dtype_of<TestType>, {m, n}, offset);
    REQUIRE(same_bits(moved, x));
    Array s("s", dtype_of<TestType>, {m, n}, offset),
        y("y", dtype_of<TestType>, {m, n}, offset + 1);
    cpu::add_rms_norm(fast, moved.rows<TestType>(), r.rows<TestType>(), w.row<TestType>(),
                      s.rows<TestType>(), y.rows<TestType>());
    CHECK(same_bits(s, aligned.s));
    CHECK(same_bits(y, aligned.y));
    CHECK((s.guards_intact() && y.guards_intact()));
  }
}

TEST_CASE("add_rms_norm of slices and repeated rows is that of contiguous copies",
          "[add_rms_norm]") {
  // x: columns 8 to 48 of rows of 64; r: one row for all; s and y: columns of wider rows.
  constexpr std::int64_t m = 5, wide = 64, n = 40;
  const Array whole = filled("whole", Dtype::float16, {m, wide});
  const Array r = filled("r", Dtype::float16, {1, n}), w = filled("w", Dtype::float16, {n});
  Array s = filled_with<float16>("s", {m, wide}, 7.0f),
        y = filled_with<float16>("y", {m, wide}, 7.0f);
  Fast fast;
  cpu::add_rms_norm(fast, strided_rows(whole.data<float16>() + 8, m, n, wide),
                    strided_rows(r.data<float16>(), m, n, 0), w.row<float16>(),
                    strided_rows(s.data<float16>() + 8, m, n, wide),
                    strided_rows(y.data<float16>() + 8, m, n, wide));
  Array x_copy("x", Dtype::float16, {m, n}), r_copy("r", Dtype::float16, {m, n});
  for (std::int64_t i = 0; i < m; ++i) {
    std::memcpy(x_copy.data<float16>() + i * n, whole.data<float16>() + i * wide + 8, n * 2);
    std::memcpy(r_copy.data<float16>() + i * n, r.raw(), n * 2);
  }
  const Outputs expected = run<float16>(x_copy, r_copy, w);
  for (std::int64_t i = 0; i < m; ++i) {
    const std::int64_t at = i * wide + 8;
    CHECK(same_bits(s.data<float16>() + at, expected.s.data<float16>() + i * n, n * 2));
    CHECK(same_bits(y.data<float16>() + at, expected.y.data<float16>() + i * n, n * 2));
    for (std::int64_t j = 0; j < wide; ++j) {
      if (j >= 8 && j < 48) continue;
      REQUIRE((s.value(i * wide + j) == 7.0 && y.value(i * wide + j) == 7.0));
    }
  }
}

TEMPLATE_TEST_CASE("add_rms_norm in place gives the bits that it gives out of place",
                   "[add_rms_norm]", float, float16, bfloat16) {
  const std::vector<std::int64_t> shape = {9, 770};
  const Array w = filled("w", dtype_of<TestType>, {770});
  const Outputs expected = run<TestType>(filled("x", dtype_of<TestType>, shape),
                                         filled("r", dtype_of<TestType>, shape), w);
  for (const Stores stores : {Stores::ordinary, Stores::streaming}) {
    for (const bool s_over_x : {true, false}) {
      Array x = filled("x", dtype_of<TestType>, shape), r = filled("r", dtype_of<TestType>, shape);
      Array& s = s_over_x ? x : r;
      Array& y = s_over_x ? r : x;
      Fast fast(stores);
      cpu::add_rms_norm(fast, x.rows<TestType>(), r.rows<TestType>(), w.row<TestType>(),
                        s.rows<TestType>(), y.rows<TestType>());
      CHECK(same_bits(s, expected.s));
      CHECK(same_bits(y, expected.y));
    }
  }
}

TEST_CASE("a residual that cancels x gives zeros with eps, and NaN without", "[add_rms_norm]") {
  Array x = filled("x", Dtype::float32, {2, 33}), r = filled("r", Dtype::float32, {2, 33});
  for (int j = 0; j < 33; ++j) r.data<float>()[j] = -x.data<float>()[j];
  const Array w = filled("w", Dtype::float32, {33});
  const Outputs with_eps = run<float>(x, r, w), without = run<float>(x, r, w, {.eps = 0});
  for (int j = 0; j < 33; ++j) {
    CHECK(with_eps.y.value(j) == 0.0);
    CHECK(std::isnan(without.y.value(j)));
    CHECK(std::isfinite(without.y.value(33 + j)));  // the row beside it does not notice
  }
}

TEMPLATE_TEST_CASE("NaN and Inf stay in their row of add_rms_norm", "[add_rms_norm]", float,
                   float16, bfloat16) {
  Array x = filled("x", dtype_of<TestType>, {3, 100}),
        r = filled("r", dtype_of<TestType>, {3, 100});
  const Array w = filled("w", dtype_of<TestType>, {100});
  const Outputs clean = run<TestType>(x, r, w);
  x.data<TestType>()[117] = from_float<TestType>(std::numeric_limits<float>::quiet_NaN());
  r.data<TestType>()[250] = from_float<TestType>(std::numeric_limits<float>::infinity());
  const Outputs out = run<TestType>(x, r, w);
  for (int j = 0; j < 300; ++j) {
    CHECK((j == 117 ? std::isnan(out.s.value(j))
                    : out.s.value(j) ==
                          (j == 250 ? std::numeric_limits<double>::infinity() : clean.s.value(j))));
  }
  CHECK(same_bits(out.y.raw(), clean.y.raw(), 100 * sizeof(TestType)));
  for (int j = 100; j < 200; ++j) CHECK(std::isnan(out.y.value(j)));
  for (int j = 200; j < 300; ++j) {  // Inf * 0 where the Inf was, finite * 0 elsewhere
    CHECK((j == 250 ? std::isnan(out.y.value(j)) : out.y.value(j) == 0.0));
  }
}

TEST_CASE("add_rms_norm refuses what it cannot do, and names it", "[add_rms_norm]") {
  Array x = filled("x", Dtype::float32, {4, 8}), r = filled("r", Dtype::float32, {4, 8});
  Array w = filled("w", Dtype::float32, {8});
  Array s("s", Dtype::float32, {4, 8}), y("y", Dtype::float32, {4, 8});
  Fast fast;
  const auto call = [&](Rows<const float> in, Rows<const float> residual, Row<const float> weight,
                        Rows<float> sum, Rows<float> out, const RmsNormOptions& options = {}) {
    CHECK_THROWS_AS(cpu::add_rms_norm_unfused(fast, in, residual, weight, sum, out, {}, options),
                    ArgumentError);
    cpu::add_rms_norm(fast, in, residual, weight, sum, out, options);
  };
  const Rows<float> in = x.rows<float>(), residual = r.rows<float>();
  const Rows<float> sum = s.rows<float>(), out = y.rows<float>();
  const Row<float> weight = w.row<float>();
  const auto three = [](Rows<float> rows, std::int64_t skipped = 0) {
    return contiguous_rows(rows.data + skipped, 3, 8);
  };
  CHECK_THROWS_MATCHES(call(in, three(residual), weight, sum, out), ArgumentError,
                       begins("r: got [3, 8]; allowed: [4, 8]"));
  CHECK_THROWS_MATCHES(call(in, residual, weight.slice(0, 7), sum, out), ArgumentError,
                       begins("w: got 7 elements; allowed: 8"));
  CHECK_THROWS_MATCHES(call(in, residual, weight, three(sum), out), ArgumentError,
                       begins("s: got [3, 8]; allowed: [4, 8]"));
  CHECK_THROWS_MATCHES(call(in, residual, weight, sum, three(out)), ArgumentError,
                       begins("y: got [3, 8]; allowed: [4, 8]"));
  CHECK_THROWS_MATCHES(call(in, residual, weight, sum, sum), ArgumentError,
                       begins("y: overlaps s"));
  CHECK_THROWS_MATCHES(call(in, residual, weight, in, in), ArgumentError, begins("y: overlaps s"));
  CHECK_THROWS_MATCHES(call(three(in), three(residual), weight, three(in, 8), three(out)),
                       ArgumentError, begins("s: overlaps x"));
  CHECK_THROWS_MATCHES(call(three(in), three(residual), weight, three(sum), three(residual, 1)),
                       ArgumentError, begins("y: overlaps r"));
  const auto one = [](float* data) { return contiguous_rows(data, 1, 8); };
  CHECK_THROWS_MATCHES(
      call(one(in.data), one(residual.data), weight, one(weight.data), one(out.data)),
      ArgumentError, begins("s: overlaps w"));
  CHECK_THROWS_MATCHES(call(in, residual, weight, strided_rows(sum.data, 4, 8, 7), out),
                       ArgumentError, begins("s: got strides"));
  CHECK_THROWS_MATCHES(call(in, residual, weight, sum, out, {.eps = -1}), ArgumentError,
                       begins("eps: got"));
  CHECK_THROWS_MATCHES(call(in, residual, weight, sum, out, {.weight_offset = 2}), ArgumentError,
                       begins("weight_offset: got 2; allowed: 0, 1"));
}
