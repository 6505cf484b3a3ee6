#include "ch13_norm_rope/rms_norm_rope.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <cmath>
#include <limits>

#include "rotation_test.hpp"

using namespace opbook;
using namespace opbook::ch13;

namespace {

template <class T>
Array normed_and_turned(const Array& x, const Array& w, const RopeTables<T>& tables,
                        const RmsNormOptions& options = {}, Stores stores = Stores::automatic,
                        std::int64_t offset = 0) {
  Array y("y", x.dtype(), x.shape(), offset);
  Fast fast(stores);
  cpu::rms_norm_rope(fast, x.rows<T>(), w.row<T>(), tables, y.rows<T>(), options);
  REQUIRE(y.guards_intact());
  return y;
}

template <class T>
Array normed(const Array& x, const Array& w, const RmsNormOptions& options = {}) {
  Array y("y", x.dtype(), x.shape());
  Fast fast;
  cpu::rms_norm(fast, x.rows<T>(), w.row<T>(), y.rows<T>(), options);
  return y;
}

template <class T>
Verdict against_reference(const Array& x, const Array& w, std::int64_t rope_dim,
                          const RmsNormOptions& options = {}) {
  const AngleTables<T> tables(x.row_count(), rope_dim);
  const reference::Reference expected = reference::rms_norm_rope(x, w, tables.reference(), options);
  return compare(normed_and_turned<T>(x, w, tables.view(), options), expected.expected,
                 expected.tolerance_ulp);
}

}  // namespace

TEMPLATE_TEST_CASE("rms_norm_rope agrees with the reference at widths that break vector loops",
                   "[rms_norm_rope]", float, float16, bfloat16) {
  for (const std::int64_t n : {769, 1368, 3584, 5 * 1024, 513, 2, 3, 7, 65536}) {
    const Array x = filled("x", dtype_of<TestType>, {3, n});
    const Array w = filled("w", dtype_of<TestType>, {n});
    for (const std::int64_t rope_dim : {n / 2 * 2, std::min<std::int64_t>(n / 2 * 2, 128)}) {
      require(against_reference<TestType>(x, w, rope_dim));
    }
  }
}

TEMPLATE_TEST_CASE("rms_norm_rope's plans pass every check at ragged shapes, replay included",
                   "[rms_norm_rope]", float, float16, bfloat16) {
  for (const std::int64_t m : {1, 2, 13}) {
    for (const std::int64_t n : {2, 5, 31, 160, 1023}) {
      Arguments arguments{.m = m, .n = n, .dtype = dtype_of<TestType>, .weight_offset = 1};
      arguments.rope_dim = n < 64 ? n / 2 * 2 : 64;
      require_every_check("rms_norm_rope", arguments, m % 2);
      arguments.rounding = Rounding::before_weight;
      arguments.positions = {8, std::min<std::int64_t>(m, 3), Dtype::int64};
      require_every_check("rms_norm_rope", arguments);
    }
  }
}

TEST_CASE("rms_norm_rope takes more rows than a grid has blocks in y", "[rms_norm_rope]") {
  for (const std::int64_t m : {65536, 70001}) {
    const Array x = filled("x", Dtype::bfloat16, {m, 8});
    const Array w = filled("w", Dtype::bfloat16, {8});
    require(against_reference<bfloat16>(x, w, 4));
  }
}

TEST_CASE("rms_norm_rope of no rows or no columns touches nothing", "[rms_norm_rope]") {
  const Array w = filled("w", Dtype::float32, {4});
  const AngleTables<float> tables(3, 4);
  RopeTables<float> none = tables.view();
  none.cos.outer = none.sin.outer = 0;
  Fast fast;
  cpu::rms_norm_rope(fast, contiguous_rows<const float>(nullptr, 0, 4), w.row<float>(), none,
                     contiguous_rows<float>(nullptr, 0, 4));
  cpu::rms_norm_rope(fast, contiguous_rows<const float>(nullptr, 3, 0), {}, {},
                     contiguous_rows<float>(nullptr, 3, 0));
  SUCCEED("returned");
}

TEMPLATE_TEST_CASE("columns that do not turn are the normalised ones to the bit", "[rms_norm_rope]",
                   float, float16, bfloat16) {
  constexpr std::int64_t m = 5, n = 203;
  const Array x = filled("x", dtype_of<TestType>, {m, n});
  const Array w = filled("w", dtype_of<TestType>, {n});
  const Array unturned = normed<TestType>(x, w);
  for (const std::int64_t rope_dim : {0, 2, 64, 202}) {
    const AngleTables<TestType> tables(m, rope_dim);
    const Array y = normed_and_turned<TestType>(x, w, tables.view());
    for (std::int64_t i = 0; i < m; ++i) {
      const std::int64_t kept = (n - rope_dim) * static_cast<std::int64_t>(sizeof(TestType));
      CHECK(same_bits(y.data<TestType>() + i * n, unturned.data<TestType>() + i * n, kept));
    }
    CHECK(same_bits(y, unturned) == (rope_dim == 0));
  }
  // Nothing turns: there need not be any tables.
  CHECK(same_bits(normed_and_turned<TestType>(x, w, {}), unturned));
}

TEMPLATE_TEST_CASE("rms_norm_rope rounds twice: its bits are those of rms_norm, then rotation",
                   "[rms_norm_rope]", float, float16, bfloat16) {
  constexpr std::int64_t m = 30, n = 192, rope_dim = 128, h = rope_dim / 2;
  const Array x = filled("x", dtype_of<TestType>, {m, n});
  const Array w = filled("w", dtype_of<TestType>, {n});
  const AngleTables<TestType> tables(m, rope_dim);
  const Array y = normed_and_turned<TestType>(x, w, tables.view());
  const Array between = normed<TestType>(x, w);
  const auto to_float32 = [](double value) { return round_to(Dtype::float32, value); };
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t p = 0; p < h; ++p) {
      const std::int64_t low = i * n + n - rope_dim + p, high = low + h;
      const double lo = between.value(low), hi = between.value(high);
      const double c = tables.cos.value(i * h + p), s = tables.sin.value(i * h + p);
      const double turned_low = to_float32(to_float32(lo * c) - to_float32(hi * s));
      const double turned_high = to_float32(to_float32(hi * c) + to_float32(lo * s));
      REQUIRE(y.value(low) == round_to(dtype_of<TestType>, turned_low));
      REQUIRE(y.value(high) == round_to(dtype_of<TestType>, turned_high));
    }
  }
}

TEMPLATE_TEST_CASE("fused or not, rms_norm_rope gives the same bits", "[rms_norm_rope]", float,
                   float16, bfloat16) {
  for (const Rounding rounding : {Rounding::once, Rounding::before_weight}) {
    for (const int weight_offset : {0, 1}) {
      const RmsNormOptions options{.rounding = rounding, .weight_offset = weight_offset};
      const Array x = filled("x", dtype_of<TestType>, {20, 301});
      const Array w = filled("w", dtype_of<TestType>, {301});
      const AngleTables<TestType> tables(20, 64);
      Array y("y", x.dtype(), x.shape()), between("normed", x.dtype(), x.shape());
      Fast fast;
      cpu::rms_norm_rope_unfused(fast, x.rows<TestType>(), w.row<TestType>(), tables.view(),
                                 y.rows<TestType>(), between.rows<TestType>(), options);
      CHECK(same_bits(between, normed<TestType>(x, w, options)));
      CHECK(same_bits(y, normed_and_turned<TestType>(x, w, tables.view(), options)));
      require(against_reference<TestType>(x, w, 64, options));
    }
  }
}

TEMPLATE_TEST_CASE("rms_norm_rope gives the same bits on bases that no register is aligned to",
                   "[rms_norm_rope]", float, float16, bfloat16) {
  const std::int64_t m = 7, n = 515;
  const Array x = filled("x", dtype_of<TestType>, {m, n});
  const Array w = filled("w", dtype_of<TestType>, {n});
  const AngleTables<TestType> tables(m, 130);
  const Array aligned = normed_and_turned<TestType>(x, w, tables.view(), {}, Stores::streaming);
  for (const std::int64_t offset : {1, 2, 3, 5}) {
    const Array moved = filled("x", dtype_of<TestType>, {m, n}, offset);
    REQUIRE(same_bits(moved, x));
    CHECK(same_bits(
        normed_and_turned<TestType>(moved, w, tables.view(), {}, Stores::automatic, offset),
        aligned));
  }
}

TEMPLATE_TEST_CASE("rms_norm_rope in place gives the bits that it gives out of place",
                   "[rms_norm_rope]", float, float16, bfloat16) {
  for (const Stores stores : {Stores::ordinary, Stores::streaming}) {
    for (const std::int64_t rope_dim : {0, 130, 770}) {
      Array x = filled("x", dtype_of<TestType>, {9, 770});
      const Array w = filled("w", dtype_of<TestType>, {770});
      const AngleTables<TestType> tables(9, rope_dim);
      const Array y = normed_and_turned<TestType>(x, w, tables.view());
      Fast fast(stores);
      cpu::rms_norm_rope(fast, x.rows<TestType>(), w.row<TestType>(), tables.view(),
                         x.rows<TestType>());
      CHECK(same_bits(x, y));
    }
  }
}

TEST_CASE("rms_norm_rope of slices of a packed tensor is that of copies; v is left alone",
          "[rms_norm_rope]") {
  constexpr std::int64_t tokens = 5, heads = 6, dh = 40;  // three of q, two of k, one of v
  const Array qkv = filled("qkv", Dtype::float16, {tokens, heads, dh});
  const Array w = filled("w", Dtype::float16, {dh});
  Array packed("packed", Dtype::float16, {tokens, heads, dh});
  Fast fast;
  for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {3, 2}}) {
    // A row is a token here: each head of a token turns by a row of its own.
    const AngleTables<float16> tables(tokens * count, 24);
    const Rows<const float16> slice{
        qkv.data<float16>() + first * dh, tokens, count, dh, heads * dh, dh};
    const Rows<float16> out{packed.data<float16>() + first * dh, tokens, count, dh, heads * dh, dh};
    cpu::rms_norm_rope(fast, slice, w.row<float16>(), tables.view(), out);

    Array copy("copy", Dtype::float16, {tokens * count, dh});
    for (std::int64_t i = 0; i < tokens * count; ++i) {
      std::copy_n(slice.row(i).data, dh, copy.data<float16>() + i * dh);
    }
    const Array y = normed_and_turned<float16>(copy, w, tables.view());
    for (std::int64_t i = 0; i < tokens * count; ++i) {
      CHECK(same_bits(out.row(i).data, y.data<float16>() + i * dh, dh * 2));
    }
  }
  for (std::int64_t t = 0; t < tokens; ++t) {
    const Row<float16> v{packed.data<float16>() + (t * heads + 5) * dh, dh};
    for (std::int64_t j = 0; j < dh; ++j) CHECK(v.data[j].bits == 0xFFFF);
  }
}

TEST_CASE("rms_norm_rope's rows are the product of the leading dimensions", "[rms_norm_rope]") {
  const Array x = filled("x", Dtype::bfloat16, {52, 7, 64});
  const Array w = filled("w", Dtype::bfloat16, {64});
  require(against_reference<bfloat16>(x, w, 32));
}

TEST_CASE("rms_norm_rope repeats a row of stride 0, turned by each row's angles",
          "[rms_norm_rope]") {
  const Array x = filled("x", Dtype::bfloat16, {1, 48});
  const Array w = filled("w", Dtype::bfloat16, {48});
  const AngleTables<bfloat16> tables(4, 16);
  Array y("y", Dtype::bfloat16, {4, 48}), copies("x", Dtype::bfloat16, {4, 48});
  for (std::int64_t i = 0; i < 4; ++i) {
    std::copy_n(x.data<bfloat16>(), 48, copies.data<bfloat16>() + i * 48);
  }
  Fast fast;
  cpu::rms_norm_rope(fast, strided_rows(x.data<bfloat16>(), 4, 48, 0), w.row<bfloat16>(),
                     tables.view(), y.rows<bfloat16>());
  CHECK(same_bits(y, normed_and_turned<bfloat16>(copies, w, tables.view())));
}

TEMPLATE_TEST_CASE("positions pick rms_norm_rope's angles, as int32 and as int64",
                   "[rms_norm_rope]", float, bfloat16) {
  const AngleTables<TestType> tables(100, 36);
  const Array x = filled("x", dtype_of<TestType>, {6, 50});
  const Array w = filled("w", dtype_of<TestType>, {50});
  // A sequence that starts again, and three of length 1.
  const std::vector<std::int32_t> narrow{0, 1, 0, 41, 7, 99};
  const std::vector<std::int64_t> wide(narrow.begin(), narrow.end());
  const Array expected = normed_and_turned<TestType>(x, w, gathered(tables, narrow).view());
  CHECK(same_bits(normed_and_turned<TestType>(x, w, tables.view(as_positions(narrow))), expected));
  CHECK(same_bits(normed_and_turned<TestType>(x, w, tables.view(as_positions(wide))), expected));
}

TEST_CASE("rms_norm_rope refuses what it cannot do, and names it", "[rms_norm_rope]") {
  Array x = filled("x", Dtype::float32, {4, 9});
  Array w = filled("w", Dtype::float32, {9});
  Array y("y", Dtype::float32, {4, 9});
  const AngleTables<float> tables(4, 6);
  Fast fast;
  const auto call = [&](const RopeTables<float>& with, Rows<float> out,
                        const RmsNormOptions& options = {}) {
    cpu::rms_norm_rope(fast, x.rows<float>(), w.row<float>(), with, out, options);
  };
  const Rows<float> out = y.rows<float>();
  CHECK_THROWS_MATCHES(call(AngleTables<float>(4, 10).view(), out), ArgumentError,
                       begins("cos: got 5 columns; allowed: at most 4, half of x's"));
  CHECK_THROWS_MATCHES(call(AngleTables<float>(5, 6).view(), out), ArgumentError,
                       begins("cos: got [5, 3]; allowed: [4, 3]"));
  CHECK_THROWS_MATCHES(call({tables.cos.rows<float>(), AngleTables<float>(4, 4).view().sin}, out),
                       ArgumentError, begins("sin: got [4, 2]; allowed: [4, 3]"));
  CHECK_THROWS_MATCHES(call({tables.cos.rows<float>(), {}}, out), ArgumentError,
                       begins("sin: got [0, 0]; allowed: [4, 3]"));
  CHECK_THROWS_MATCHES(call(tables.view(as_positions(std::vector<std::int64_t>{0, 1, 2, 4})), out),
                       ArgumentError,
                       begins("positions: got 4 for token 3; allowed: 0 up to, not including, 4"));
  CHECK_THROWS_MATCHES(call(tables.view(as_positions(std::vector<std::int32_t>{0, -7, 2, 3})), out),
                       ArgumentError, begins("positions: got -7 for token 1"));
  CHECK_THROWS_MATCHES(call(tables.view(), contiguous_rows(out.data, 3, 9)), ArgumentError,
                       begins("y: got [3, 9]; allowed: [4, 9]"));
  CHECK_THROWS_MATCHES(call(tables.view(), strided_rows(out.data, 4, 9, 8)), ArgumentError,
                       begins("y: got strides"));
  CHECK_THROWS_MATCHES(call(tables.view(), contiguous_rows(x.data<float>() + 1, 4, 9)),
                       ArgumentError, begins("y: overlaps x"));
  CHECK_THROWS_MATCHES(call(tables.view(), out, {.eps = -1.0f}), ArgumentError, begins("eps: got"));
  CHECK_THROWS_MATCHES(call(tables.view(), out, {.weight_offset = 2}), ArgumentError,
                       begins("weight_offset: got 2; allowed: 0, 1"));
  const auto unfused = [&](Rows<float> normed) {
    cpu::rms_norm_rope_unfused(fast, x.rows<float>(), w.row<float>(), tables.view(), out, normed);
  };
  CHECK_THROWS_MATCHES(unfused(contiguous_rows(out.data, 2, 9)), ArgumentError,
                       begins("normed: got [2, 9]; allowed: [4, 9]"));
  CHECK(untouched(y));
}

TEST_CASE("the command's rope_dim must be even and at most n", "[rms_norm_rope]") {
  const auto make = [](std::int64_t rope_dim) {
    return find_operator("rms_norm_rope")
        ->make_problem({.m = 2, .n = 64, .rope_dim = rope_dim, .dtype = Dtype::float16});
  };
  CHECK_THROWS_MATCHES(make(7), ArgumentError, begins("rope_dim: got 7; allowed: an even number"));
  CHECK_THROWS_MATCHES(make(66), ArgumentError,
                       begins("rope_dim: got 66; allowed: an even number"));
  CHECK_NOTHROW(make(64));
}

TEST_CASE("a row of zeros gives zeros with eps, and NaN without, turned or not",
          "[rms_norm_rope]") {
  Array x = filled_with<float16>("x", {2, 33}, 0.0f);
  for (int j = 0; j < 33; ++j) x.data<float16>()[33 + j] = from_float<float16>(1.0f + j);
  const Array w = filled("w", Dtype::float16, {33});
  const AngleTables<float16> tables(2, 16);
  const Array zeros = normed_and_turned<float16>(x, w, tables.view());
  const Array nans = normed_and_turned<float16>(x, w, tables.view(), {.eps = 0});
  for (int j = 0; j < 33; ++j) {
    CHECK(zeros.value(j) == 0.0);
    CHECK(std::isnan(nans.value(j)));
    CHECK(std::isfinite(nans.value(33 + j)));  // the row beside it does not notice
  }
}

TEMPLATE_TEST_CASE("rms_norm_rope keeps NaN and Inf in their row", "[rms_norm_rope]", float,
                   float16, bfloat16) {
  Array x = filled("x", dtype_of<TestType>, {3, 100});
  const Array w = filled("w", dtype_of<TestType>, {100});
  const AngleTables<TestType> tables(3, 40);
  const Array clean = normed_and_turned<TestType>(x, w, tables.view());
  x.data<TestType>()[117] = from_float<TestType>(std::numeric_limits<float>::quiet_NaN());
  x.data<TestType>()[265] = from_float<TestType>(std::numeric_limits<float>::infinity());
  const Array y = normed_and_turned<TestType>(x, w, tables.view());
  CHECK(same_bits(y.raw(), clean.raw(), 100 * sizeof(TestType)));
  for (int j = 100; j < 200; ++j) CHECK(std::isnan(y.value(j)));
  for (int j = 200; j < 300; ++j) {  // Inf * 0 where the Inf was, which turns with column 285
    CHECK((j == 265 || j == 285 ? std::isnan(y.value(j)) : y.value(j) == 0.0));
  }
}
