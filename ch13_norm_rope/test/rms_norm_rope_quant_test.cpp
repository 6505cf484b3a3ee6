#include "ch13_norm_rope/rms_norm_rope_quant.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <cmath>
#include <limits>

#include "ch13_norm_rope/rms_norm_rope.hpp"
#include "rotation_test.hpp"

using namespace opbook;
using namespace opbook::ch13;

namespace {

/// What the operator makes of x: codes, scales, and y where it was asked for.
struct Result {
  Array q, scale, y;
};

Result room_for(const Array& x, std::int64_t group_size, std::int64_t offset = 0) {
  const std::int64_t groups = group_size > 0 ? x.cols() / group_size : 1;
  return {Array("q", Dtype::float8_e4m3fn, x.shape(), offset),
          Array("scale", Dtype::float32, {x.row_count(), groups}, offset),
          Array("y", x.dtype(), x.shape(), offset)};
}

template <class T>
Quantised<T> view(Result& result, bool with_y = true) {
  return {result.q.rows<float8_e4m3fn>(), result.scale.rows<float>(),
          with_y ? result.y.rows<T>() : Rows<T>{}};
}

template <class T>
Result quantised(const Array& x, const Array& w, const RopeTables<T>& tables,
                 const RmsNormRopeQuantOptions& options = {}, Stores stores = Stores::automatic,
                 std::int64_t offset = 0) {
  Result result = room_for(x, options.group_size, offset);
  Fast fast(stores);
  cpu::rms_norm_rope_quant(fast, x.rows<T>(), w.row<T>(), tables, view<T>(result), options);
  REQUIRE(result.q.guards_intact());
  REQUIRE(result.scale.guards_intact());
  REQUIRE(result.y.guards_intact());
  return result;
}

bool same_bits(const Result& a, const Result& b) {
  return ch13::same_bits(a.q, b.q) && ch13::same_bits(a.scale, b.scale) &&
         ch13::same_bits(a.y, b.y);
}

std::uint8_t code(const Array& q, std::int64_t i) {
  return q.data<float8_e4m3fn>()[i].bits;
}

/// y against the reference; scales and codes against quantising that y, to the bit.
template <class T>
void require_right(const Result& result, const Array& x, const Array& w,
                   const AngleTables<T>& tables, const RmsNormRopeQuantOptions& options = {}) {
  const reference::Reference y = reference::rms_norm_rope(x, w, tables.reference(), options.norm);
  require(compare(result.y, y.expected, y.tolerance_ulp));
  const reference::Quantisation expected = reference::quantise(result.y, options.group_size);
  require(compare(result.scale, expected.scale.expected, expected.scale.tolerance_ulp));
  require(compare_bits(result.q, expected.q));
}

/// With eps 0 and x = 1 everywhere, rstd is 1 and y is w: a row of values of one's own choice.
template <class T>
Result quantised_values(const std::vector<float>& values, std::int64_t group_size = 0) {
  const std::int64_t n = static_cast<std::int64_t>(values.size());
  const Array x = filled_with<T>("x", {1, n}, 1.0f);
  Array w("w", dtype_of<T>, {n});
  for (std::int64_t j = 0; j < n; ++j) w.data<T>()[j] = from_float<T>(values[j]);
  Result result = quantised<T>(x, w, {}, {.norm = {.eps = 0}, .group_size = group_size});
  REQUIRE(ch13::same_bits(result.y, w));
  return result;
}

}  // namespace

TEMPLATE_TEST_CASE(
    "rms_norm_rope_quant agrees with the reference at widths that break vector loops",
    "[rms_norm_rope_quant]", float, float16, bfloat16) {
  for (const std::int64_t n : {769, 1368, 3584, 5 * 1024, 513, 2, 3, 7, 65536}) {
    const Array x = filled("x", dtype_of<TestType>, {3, n});
    const Array w = filled("w", dtype_of<TestType>, {n});
    const AngleTables<TestType> tables(3, std::min<std::int64_t>(n / 2 * 2, 128));
    require_right<TestType>(quantised<TestType>(x, w, tables.view()), x, w, tables);
  }
}

TEMPLATE_TEST_CASE("groups of any size that divides the row have their own scales",
                   "[rms_norm_rope_quant]", float, float16, bfloat16) {
  for (const auto& [n, group_size] : std::vector<std::pair<std::int64_t, std::int64_t>>{{1664, 128},
                                                                                        {1368, 9},
                                                                                        {513, 19},
                                                                                        {513, 27},
                                                                                        {40, 1},
                                                                                        {40, 40},
                                                                                        {4096, 128},
                                                                                        {96, 48}}) {
    const Array x = filled("x", dtype_of<TestType>, {3, n});
    const Array w = filled("w", dtype_of<TestType>, {n});
    const AngleTables<TestType> tables(3, 40);
    const RmsNormRopeQuantOptions options{.group_size = group_size};
    const Result result = quantised<TestType>(x, w, tables.view(), options);
    CHECK(result.scale.shape() == std::vector{std::int64_t{3}, n / group_size});
    require_right<TestType>(result, x, w, tables, options);
  }
}

TEMPLATE_TEST_CASE("rms_norm_rope_quant's plans pass every check at ragged shapes, replay included",
                   "[rms_norm_rope_quant]", float, float16, bfloat16) {
  for (const std::int64_t m : {1, 2, 13}) {
    for (const std::int64_t n : {2, 5, 33, 160, 1023}) {
      Arguments arguments{.m = m, .n = n, .dtype = dtype_of<TestType>};
      arguments.rope_dim = n < 64 ? n / 2 * 2 : 64;
      require_every_check("rms_norm_rope_quant", arguments, m % 2);
      arguments.with_y = true;
      arguments.group_size = n % 11 == 0 ? 11 : n % 5 == 0 ? 5 : 1;
      arguments.weight_offset = 1;
      require_every_check("rms_norm_rope_quant", arguments, m % 2);
      arguments.with_y = false;
      arguments.rounding = Rounding::before_weight;
      arguments.positions = {8, std::min<std::int64_t>(m, 3), Dtype::int32};
      require_every_check("rms_norm_rope_quant", arguments);
    }
  }
}

TEST_CASE("the verification of codes notices a code and a scale that are off by one",
          "[rms_norm_rope_quant]") {
  for (const bool with_y : {false, true}) {
    const Arguments arguments{.m = 3,
                              .n = 40,
                              .rope_dim = 8,
                              .group_size = 20,
                              .dtype = Dtype::bfloat16,
                              .with_y = with_y};
    const Problem right = find_operator("rms_norm_rope_quant")->make_problem(arguments);
    for (const char* damaged : {"q", "scale"}) {
      Problem wrong = right;
      wrong.run = [&](Fast& fast, PlanKind plan, Tensors& tensors) {
        right.run(fast, plan, tensors);
        ++reinterpret_cast<std::uint8_t*>(tensors.at(damaged).raw())[4];
      };
      Tensors tensors(wrong.tensors);
      fill_inputs(wrong, tensors, 1);
      Fast fast;
      INFO(damaged);
      CHECK_FALSE(all_pass(verify_problem(wrong, tensors, fast)));
    }
  }
}

TEST_CASE("rms_norm_rope_quant takes more rows than a grid has blocks in y",
          "[rms_norm_rope_quant]") {
  for (const std::int64_t m : {65536, 70001}) {
    const Array x = filled("x", Dtype::bfloat16, {m, 8});
    const Array w = filled("w", Dtype::bfloat16, {8});
    const AngleTables<bfloat16> tables(m, 4);
    require_right<bfloat16>(quantised<bfloat16>(x, w, tables.view()), x, w, tables);
  }
}

TEST_CASE("rms_norm_rope_quant of no rows or no columns touches nothing", "[rms_norm_rope_quant]") {
  Fast fast;
  const Array w = filled("w", Dtype::float32, {4});
  cpu::rms_norm_rope_quant(fast, contiguous_rows<const float>(nullptr, 0, 4), w.row<float>(), {},
                           Quantised<float>{contiguous_rows<float8_e4m3fn>(nullptr, 0, 4),
                                            contiguous_rows<float>(nullptr, 0, 1)});
  Array scale("scale", Dtype::float32, {3, 1});
  cpu::rms_norm_rope_quant(
      fast, contiguous_rows<const float>(nullptr, 3, 0), {}, {},
      Quantised<float>{contiguous_rows<float8_e4m3fn>(nullptr, 3, 0), scale.rows<float>()});
  CHECK(untouched(scale));
}

TEMPLATE_TEST_CASE("codes and scales are the same with y, without it, and unfused",
                   "[rms_norm_rope_quant]", float, float16, bfloat16) {
  for (const std::int64_t group_size : {0, 43}) {
    const Array x = filled("x", dtype_of<TestType>, {20, 301});
    const Array w = filled("w", dtype_of<TestType>, {301});
    const AngleTables<TestType> tables(20, 64);
    const RmsNormRopeQuantOptions options{.group_size = group_size};
    const Result with_y = quantised<TestType>(x, w, tables.view(), options);

    Result without = room_for(x, group_size);
    Fast fast;
    cpu::rms_norm_rope_quant(fast, x.rows<TestType>(), w.row<TestType>(), tables.view(),
                             view<TestType>(without, false), options);
    CHECK(ch13::same_bits(without.q, with_y.q));
    CHECK(ch13::same_bits(without.scale, with_y.scale));
    CHECK(untouched(without.y));

    Result unfused = room_for(x, group_size);
    Array normed("normed", x.dtype(), x.shape());
    cpu::rms_norm_rope_quant_unfused(fast, x.rows<TestType>(), w.row<TestType>(), tables.view(),
                                     view<TestType>(unfused), normed.rows<TestType>(), options);
    CHECK(same_bits(unfused, with_y));

    Array y("y", x.dtype(), x.shape());
    cpu::rms_norm_rope(fast, x.rows<TestType>(), w.row<TestType>(), tables.view(),
                       y.rows<TestType>());
    CHECK(ch13::same_bits(y, with_y.y));
  }
}

TEST_CASE("y / scale saturates at 448 and never becomes NaN", "[rms_norm_rope_quant]") {
  // An amax of its own row never lets y / scale pass 448: the primitive itself, with scale 1. (Inf
  // in a row makes the row's scale Inf.)
  const std::vector<float> values{448, 463, 464, 465, 500, 1e30f, -463, -464, -465, -500};
  std::vector<float> x;
  for (int i = 0; i < 10; ++i) x.insert(x.end(), values.begin(), values.end());
  const Row<const float> row{x.data(), static_cast<std::int64_t>(x.size())};
  std::vector<float8_e4m3fn> fast_codes(x.size()), counted_codes(x.size());
  ScratchSpace scratch;
  for (const float scale : {1.0f, 0x1p-70f}) {  // the second by a true division
    FastRow(scratch, false).quantise({fast_codes.data(), row.size}, row, scale);
    Meter meter;
    meter.declare("x", x.data(), row.size * 4);
    meter.declare("q", counted_codes.data(), row.size);
    meter.begin_kernel("quantise");
    MeteredRow(meter).quantise({counted_codes.data(), row.size}, row, scale);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const int expected = x[i] > 0 ? 0x7E : 0xFE;
      CHECK(fast_codes[i].bits == expected);
      CHECK(counted_codes[i].bits == expected);
    }
  }
}

TEMPLATE_TEST_CASE("an amax of exactly 448 makes the scale 1 and the codes those of the values",
                   "[rms_norm_rope_quant]", float, bfloat16) {
  // Ties go to the even code: 17 lies between 16 and 18, 2^-10 between 0 and the smallest step.
  const Result result = quantised_values<TestType>(
      {448, -448, 1, -1, 17, 19, 0x1p-10f, 0x1p-9f, 3 * 0x1p-10f, -0.0f, 0, 432});
  CHECK(result.scale.value(0) == 1.0);
  const std::vector<int> expected{0x7E, 0xFE, 0x38, 0xB8, 0x58, 0x5A,
                                  0x00, 0x01, 0x02, 0x80, 0x00, 0x7E};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("value " << i);
    CHECK(code(result.q, static_cast<std::int64_t>(i)) == expected[i]);
  }
}

TEST_CASE("amax is floored at 1e-4, from where codes shrink", "[rms_norm_rope_quant]") {
  const double floor_scale = round_to(Dtype::float32, round_to(Dtype::float32, 1e-4) / 448.0);
  CHECK(quantised_values<float>({0.5e-4f, 1e-5f}).scale.value(0) == floor_scale);
  CHECK(quantised_values<float>({1e-4f, 1e-5f}).scale.value(0) == floor_scale);
  CHECK(quantised_values<float>({1.01e-4f, 1e-5f}).scale.value(0) > floor_scale);
  CHECK(quantised_values<float>({0.5e-4f, 1e-5f}).q.value(0) == 224.0);  // half of 448
}

TEMPLATE_TEST_CASE("a row or a group of zeros gets codes of zero and the floor's scale",
                   "[rms_norm_rope_quant]", float, float16, bfloat16) {
  const double floor_scale = round_to(Dtype::float32, round_to(Dtype::float32, 1e-4) / 448.0);
  Array x = filled("x", dtype_of<TestType>, {3, 96});
  const TestType zero = from_float<TestType>(0.0f);
  std::fill_n(x.data<TestType>(), 96, zero);            // the first row
  std::fill_n(x.data<TestType>() + 96 + 32, 32, zero);  // the second row's second group
  const Array w = filled("w", dtype_of<TestType>, {96});
  const AngleTables<TestType> tables(3, 32);
  const Result result = quantised<TestType>(x, w, tables.view(), {.group_size = 32});
  for (std::int64_t i = 0; i < 9; ++i) {
    const bool is_zero = i < 3 || i == 4;
    CHECK((result.scale.value(i) == floor_scale) == is_zero);
    for (std::int64_t j = 0; is_zero && j < 32; ++j) CHECK(code(result.q, i * 32 + j) == 0x00);
  }
  const Result by_row = quantised<TestType>(x, w, tables.view());
  CHECK(by_row.scale.value(0) == floor_scale);
  for (std::int64_t j = 0; j < 96; ++j) CHECK(code(by_row.q, j) == 0x00);
}

TEMPLATE_TEST_CASE("a NaN makes its row's scale NaN and its codes 0x7F, and no other row's",
                   "[rms_norm_rope_quant]", float, float16, bfloat16) {
  constexpr std::int64_t n = 120;
  for (const std::int64_t group_size : {0, 40}) {
    Array x = filled("x", dtype_of<TestType>, {3, n});
    const Array w = filled("w", dtype_of<TestType>, {n});
    const AngleTables<TestType> tables(3, 40);
    const RmsNormRopeQuantOptions options{.group_size = group_size};
    const Result clean = quantised<TestType>(x, w, tables.view(), options);
    x.data<TestType>()[n + 17] = from_float<TestType>(std::numeric_limits<float>::quiet_NaN());
    const Result result = quantised<TestType>(x, w, tables.view(), options);
    const std::int64_t groups = result.scale.cols();
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t g = 0; g < groups; ++g) {
        const double scale = result.scale.value(i * groups + g);
        CHECK((i == 1 ? std::isnan(scale) : scale == clean.scale.value(i * groups + g)));
      }
      for (std::int64_t j = 0; j < n; ++j) {
        CHECK(code(result.q, i * n + j) == (i == 1 ? 0x7F : code(clean.q, i * n + j)));
      }
    }
  }
}

TEST_CASE("a NaN that only one group sees leaves the row's other groups alone",
          "[rms_norm_rope_quant]") {
  const Array x = filled("x", Dtype::bfloat16, {2, 96});
  Array w = filled("w", Dtype::bfloat16, {96});
  const RmsNormRopeQuantOptions options{.group_size = 32};
  const Result clean = quantised<bfloat16>(x, w, {}, options);
  w.data<bfloat16>()[40] = {0x7FFF};
  const Result result = quantised<bfloat16>(x, w, {}, options);
  for (std::int64_t i = 0; i < 2 * 96; ++i) {
    CHECK(code(result.q, i) == (i / 32 % 3 == 1 ? 0x7F : code(clean.q, i)));
  }
}

TEST_CASE("an Inf in a row gives NaN where it stood and with it NaN everywhere",
          "[rms_norm_rope_quant]") {
  // rstd = 0, Inf * 0 = NaN, the others 0; amax is NaN. IEEE arithmetic on the formula.
  Array x = filled("x", Dtype::float32, {2, 64});
  x.data<float>()[5] = std::numeric_limits<float>::infinity();
  const Array w = filled("w", Dtype::float32, {64});
  const Result result = quantised<float>(x, w, {});
  CHECK(std::isnan(result.scale.value(0)));
  for (std::int64_t j = 0; j < 64; ++j) CHECK(code(result.q, j) == 0x7F);
  CHECK(std::isfinite(result.scale.value(1)));
}

TEMPLATE_TEST_CASE("columns that do not turn are quantised as the normalised ones",
                   "[rms_norm_rope_quant]", float, float16, bfloat16) {
  constexpr std::int64_t m = 4, n = 203;
  const Array x = filled("x", dtype_of<TestType>, {m, n});
  const Array w = filled("w", dtype_of<TestType>, {n});
  const Result unturned = quantised<TestType>(x, w, {});
  Array normed("normed", dtype_of<TestType>, {m, n});
  Fast fast;
  cpu::rms_norm(fast, x.rows<TestType>(), w.row<TestType>(), normed.rows<TestType>());
  CHECK(ch13::same_bits(unturned.y, normed));  // rd = 0: nothing turns
  for (const std::int64_t rope_dim : {2, 64, 202}) {
    const AngleTables<TestType> tables(m, rope_dim);
    const Result result = quantised<TestType>(x, w, tables.view());
    require_right<TestType>(result, x, w, tables);
    for (std::int64_t i = 0; i < m; ++i) {
      CHECK(ch13::same_bits(result.y.data<TestType>() + i * n, normed.data<TestType>() + i * n,
                            (n - rope_dim) * static_cast<std::int64_t>(sizeof(TestType))));
    }
  }
}

TEMPLATE_TEST_CASE("rms_norm_rope_quant gives the same bits on bases that nothing is aligned to",
                   "[rms_norm_rope_quant]", float, float16, bfloat16) {
  const Array x = filled("x", dtype_of<TestType>, {7, 520});
  const Array w = filled("w", dtype_of<TestType>, {520});
  const AngleTables<TestType> tables(7, 130);
  for (const std::int64_t group_size : {0, 65}) {
    const RmsNormRopeQuantOptions options{.group_size = group_size};
    const Result aligned = quantised<TestType>(x, w, tables.view(), options, Stores::streaming);
    for (const std::int64_t offset : {1, 2, 3, 5}) {
      const Array moved = filled("x", dtype_of<TestType>, {7, 520}, offset);
      for (const Stores stores : {Stores::ordinary, Stores::streaming}) {
        CHECK(same_bits(quantised<TestType>(moved, w, tables.view(), options, stores, offset),
                        aligned));
      }
    }
  }
}

TEMPLATE_TEST_CASE("y may take x's place", "[rms_norm_rope_quant]", float, float16, bfloat16) {
  for (const Stores stores : {Stores::ordinary, Stores::streaming}) {
    Array x = filled("x", dtype_of<TestType>, {9, 770});
    const Array w = filled("w", dtype_of<TestType>, {770});
    const AngleTables<TestType> tables(9, 130);
    const Result apart = quantised<TestType>(x, w, tables.view());
    Result result = room_for(x, 0);
    Quantised<TestType> in_place = view<TestType>(result);
    in_place.y = x.rows<TestType>();
    Fast fast(stores);
    cpu::rms_norm_rope_quant(fast, x.rows<TestType>(), w.row<TestType>(), tables.view(), in_place);
    CHECK(ch13::same_bits(x, apart.y));
    CHECK(ch13::same_bits(result.q, apart.q));
    CHECK(ch13::same_bits(result.scale, apart.scale));
  }
}

TEST_CASE("rms_norm_rope_quant takes slices of a packed tensor, and leaves v alone",
          "[rms_norm_rope_quant]") {
  constexpr std::int64_t tokens = 5, heads = 6, dh = 40;  // three of q, two of k, one of v
  const Array qkv = filled("qkv", Dtype::float16, {tokens, heads, dh});
  const Array w = filled("w", Dtype::float16, {dh});
  Array packed("packed", Dtype::float8_e4m3fn, {tokens, heads, dh});
  Fast fast;
  for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {3, 2}}) {
    const AngleTables<float16> tables(tokens * count, 24);
    const Rows<const float16> slice{
        qkv.data<float16>() + first * dh, tokens, count, dh, heads * dh, dh};
    const Rows<float8_e4m3fn> out{
        packed.data<float8_e4m3fn>() + first * dh, tokens, count, dh, heads * dh, dh};
    Array scale("scale", Dtype::float32, {tokens * count, 1});
    cpu::rms_norm_rope_quant(fast, slice, w.row<float16>(), tables.view(),
                             Quantised<float16>{out, scale.rows<float>()});

    Array copy("copy", Dtype::float16, {tokens * count, dh});
    for (std::int64_t i = 0; i < tokens * count; ++i) {
      std::copy_n(slice.row(i).data, dh, copy.data<float16>() + i * dh);
    }
    const Result expected = quantised<float16>(copy, w, tables.view());
    CHECK(ch13::same_bits(scale, expected.scale));
    for (std::int64_t i = 0; i < tokens * count; ++i) {
      CHECK(ch13::same_bits(out.row(i).data, expected.q.data<float8_e4m3fn>() + i * dh, dh));
    }
  }
  for (std::int64_t i = 0; i < tokens * dh; ++i) {
    CHECK(code(packed, i / dh * heads * dh + 5 * dh + i % dh) == 0xFF);
  }
}

TEST_CASE("rms_norm_rope_quant's rows are the product of the leading dimensions",
          "[rms_norm_rope_quant]") {
  const Array x = filled("x", Dtype::bfloat16, {52, 7, 64});
  const Array w = filled("w", Dtype::bfloat16, {64});
  const AngleTables<bfloat16> tables(52 * 7, 32);
  require_right<bfloat16>(quantised<bfloat16>(x, w, tables.view()), x, w, tables);
}

TEST_CASE("positions pick rms_norm_rope_quant's angles, as int32 and as int64",
          "[rms_norm_rope_quant]") {
  const AngleTables<bfloat16> tables(100, 36);
  const Array x = filled("x", Dtype::bfloat16, {6, 50});
  const Array w = filled("w", Dtype::bfloat16, {50});
  const std::vector<std::int32_t> narrow{0, 1, 0, 41, 7, 99};
  const std::vector<std::int64_t> wide(narrow.begin(), narrow.end());
  const Result expected = quantised<bfloat16>(x, w, gathered(tables, narrow).view());
  CHECK(same_bits(quantised<bfloat16>(x, w, tables.view(as_positions(narrow))), expected));
  CHECK(same_bits(quantised<bfloat16>(x, w, tables.view(as_positions(wide))), expected));
}

TEST_CASE("rms_norm_rope_quant refuses what it cannot do, and names it", "[rms_norm_rope_quant]") {
  Array x = filled("x", Dtype::float32, {4, 12});
  const Array w = filled("w", Dtype::float32, {12});
  const AngleTables<float> tables(4, 6);
  Result result = room_for(x, 4);
  Fast fast;
  const auto call = [&](const Quantised<float>& out, const RmsNormRopeQuantOptions& options,
                        const RopeTables<float>& with) {
    cpu::rms_norm_rope_quant(fast, x.rows<float>(), w.row<float>(), with, out, options);
  };
  const Quantised<float> out = view<float>(result);
  const RmsNormRopeQuantOptions by_four{.group_size = 4};
  const auto refused = [&](const Quantised<float>& to, const char* text) {
    CHECK_THROWS_MATCHES(call(to, by_four, tables.view()), ArgumentError, begins(text));
  };
  for (const std::int64_t group_size : {5, 24, -4}) {
    CHECK_THROWS_MATCHES(
        call(out, {.group_size = group_size}, tables.view()), ArgumentError,
        begins("group_size: got " + std::to_string(group_size) + "; allowed: a divisor of n = 12"));
  }
  // One scale a token and one a group are different things: the shapes tell them apart.
  CHECK_THROWS_MATCHES(call(out, {}, tables.view()), ArgumentError,
                       begins("scale: got [4, 3]; allowed: [4, 1]"));
  CHECK_THROWS_MATCHES(call(out, by_four, AngleTables<float>(4, 14).view()), ArgumentError,
                       begins("cos: got 7 columns; allowed: at most 6"));
  CHECK_THROWS_MATCHES(
      call(out, by_four, tables.view(as_positions(std::vector<std::int64_t>{0, 1, 2, 4}))),
      ArgumentError, begins("positions: got 4 for token 3"));
  CHECK_THROWS_MATCHES(call(out, {.norm = {.eps = -1.0f}, .group_size = 4}, tables.view()),
                       ArgumentError, begins("eps: got"));
  auto* const bytes = reinterpret_cast<float8_e4m3fn*>(x.raw());
  refused({contiguous_rows(out.q.data, 3, 12), out.scale}, "q: got [3, 12]; allowed: [4, 12]");
  refused({contiguous_rows(bytes, 4, 12), out.scale}, "q: overlaps x");
  refused({out.q, contiguous_rows(x.data<float>(), 4, 3)}, "scale: overlaps x");
  refused({out.q, strided_rows(out.scale.data, 4, 3, 2)}, "scale: got strides");
  refused({contiguous_rows(reinterpret_cast<float8_e4m3fn*>(out.y.data), 4, 12), out.scale, out.y},
          "q: overlaps y");
  refused({out.q, contiguous_rows(out.y.data, 4, 3), out.y}, "scale: overlaps y");
  refused({contiguous_rows(reinterpret_cast<float8_e4m3fn*>(out.scale.data), 4, 12), out.scale},
          "scale: overlaps q");
  refused({out.q, out.scale, contiguous_rows(x.data<float>() + 1, 4, 12)}, "y: overlaps x");
  CHECK(untouched(result.q));
  CHECK(untouched(result.scale));
  CHECK(untouched(result.y));
}

TEST_CASE("rms_norm_rope_quant runs with e4m3 codes only", "[rms_norm_rope_quant]") {
  const Arguments arguments{
      .m = 2, .n = 64, .rope_dim = 8, .dtype = Dtype::float16, .out_dtype = Dtype::bfloat16};
  CHECK_NOTHROW(find_operator("rms_norm_rope_quant")->make_case(arguments, Convention::book));
  CHECK_THROWS_MATCHES(find_operator("rms_norm_rope_quant")->make_problem(arguments), ArgumentError,
                       begins("out_dtype: got bfloat16; allowed: float8_e4m3fn"));
}
