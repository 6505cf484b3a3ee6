#include <catch2/catch_template_test_macros.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "ch28_design/test/heads_test.hpp"
#include "common/replay.hpp"

using namespace opbook;
using namespace opbook::ch28;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The scale of a head whose largest value is at the floor.
double floor_scale() {
  return round_to(Dtype::float32, round_to(Dtype::float32, 1e-4) / 448.0);
}

/// With eps 0 and x = 1 everywhere, rstd is 1 and y is the weight, if nothing turns: a head of
/// values of one's own choice.
template <class T>
Outputs quantised_values(const std::vector<float>& values) {
  const Shape shape{.tokens = 1,
                    .q_heads = 1,
                    .kv_heads = 0,
                    .dh = static_cast<std::int64_t>(values.size()),
                    .rope_dim = 0};
  Inputs<T> in(shape);
  for (std::int64_t j = 0; j < shape.dh; ++j) {
    in.at(0, j) = from_float<T>(1.0f);
    in.q_weight.template data<T>()[j] = from_float<T>(values[j]);
  }
  Outputs result = run(in, {.eps = 0});
  for (std::int64_t j = 0; j < shape.dh; ++j) REQUIRE(result.y.value(j) == in.q_weight.value(j));
  return result;
}

constexpr Design all_of_them[] = {Design::A, Design::B, Design::C, Design::D};

}  // namespace

TEMPLATE_TEST_CASE("every design agrees with the reference at every width", "[operator]", float16,
                   bfloat16) {
  for (const std::int64_t dh : {64, 96, 128, 192, 256, 2, 6, 34, 62, 130}) {
    const Inputs<TestType> in({.dh = dh, .rope_dim = dh});
    for (const Design design : all_of_them) {
      const QkOptions options{.design = design, .rows_per_block = 5};
      require_right(run(in, options), in, options);
    }
  }
}

TEMPLATE_TEST_CASE("any number of heads: grouped, one for k, none for k, none for q", "[operator]",
                   float16, bfloat16) {
  for (const auto& [q_heads, kv_heads] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {32, 8}, {28, 4}, {16, 1}, {7, 0}, {0, 7}, {1, 1}, {1, 0}, {0, 1}}) {
    const Inputs<TestType> in({.q_heads = q_heads, .kv_heads = kv_heads});
    for (const Design design : all_of_them) {
      require_right(run(in, {.design = design}), in);
    }
  }
}

TEMPLATE_TEST_CASE("all designs, with y and without, make the same bits", "[operator]", float16,
                   bfloat16) {
  const Inputs<TestType> in({.tokens = 17, .q_heads = 5, .kv_heads = 3, .rope_dim = 96});
  const Outputs expected = run(in);
  for (const Design design : all_of_them) {
    for (const std::int64_t rows : {2, 7, 8, 64}) {
      const QkOptions options{.design = design, .rows_per_block = rows};
      CHECK(same_bits(run(in, options), expected));
      Outputs without(in.shape);
      Fast fast(Stores::streaming);
      cpu::qk_norm_rope_quant(fast, in.view(), without.view(false), options);
      CHECK(same_bits(without.codes, expected.codes));
      CHECK(same_bits(without.scale, expected.scale));
      CHECK(untouched(without.y));
    }
  }
}

TEST_CASE("a head's bits depend on nothing but the head", "[operator]") {
  const Inputs<bfloat16> many({.tokens = 40, .q_heads = 6, .kv_heads = 2});
  const Outputs all = run(many);
  const std::vector<std::int64_t> third{3};
  Inputs<bfloat16> one({.tokens = 1, .q_heads = 1, .kv_heads = 0, .table_rows = 40});
  const std::int64_t row = 3 * 8 + 4;
  std::copy_n(many.x.data<bfloat16>() + row * 128, 128, one.x.data<bfloat16>());
  const Outputs alone = run(one, {.design = Design::A}, as_positions(third));
  CHECK(std::memcmp(alone.codes.raw(), all.codes.raw() + row * 128, 128) == 0);
  CHECK(alone.scale.value(0) == all.scale.value(row));
}

TEST_CASE("more rows than a grid has blocks in y", "[operator]") {
  for (const std::int64_t tokens : {65536, 70001}) {
    const Inputs<bfloat16> in(
        {.tokens = tokens, .q_heads = 1, .kv_heads = 1, .dh = 4, .rope_dim = 2});
    require_right(run(in), in);
  }
}

TEST_CASE("no tokens and no columns do nothing; no heads at all are refused", "[operator]") {
  Fast fast;
  for (const Design design : all_of_them) {
    const Inputs<bfloat16> none({.tokens = 0});
    Outputs outputs(none.shape);
    cpu::qk_norm_rope_quant(fast, none.view(), outputs.view(), {.design = design});
    const Inputs<bfloat16> narrow({.dh = 0, .rope_dim = 0});
    Outputs scales(narrow.shape);
    cpu::qk_norm_rope_quant(fast, narrow.view(), scales.view(), {.design = design});
    CHECK(untouched(scales.scale));
    const Inputs<bfloat16> headless({.q_heads = 0, .kv_heads = 0});
    CHECK_THROWS_MATCHES(
        cpu::qk_norm_rope_quant(fast, headless.view(), outputs.view(), {.design = design}),
        ArgumentError, begins("heads: got 0 of q and 0 of k; allowed: "));
  }
}

TEMPLATE_TEST_CASE("q and k as slices of qkv, or apart, give the bits of the packed tensor",
                   "[operator]", float16, bfloat16) {
  const Shape shape{.tokens = 11, .q_heads = 6, .kv_heads = 2, .dh = 96, .rope_dim = 96};
  const Inputs<TestType> packed(shape);
  const Outputs expected = run(packed);
  const auto copy_heads = [&](Array& to, std::int64_t heads, std::int64_t first, std::int64_t count,
                              std::int64_t into) {
    for (std::int64_t t = 0; t < shape.tokens; ++t) {
      std::copy_n(packed.x.template data<TestType>() + (t * 8 + first) * 96, count * 96,
                  to.template data<TestType>() + (t * heads + into) * 96);
    }
  };
  Array qkv("qkv", dtype_of<TestType>, {11, 10, 96});
  copy_heads(qkv, 10, 0, 8, 0);  // v is left poisoned
  Array q("q", dtype_of<TestType>, {11, 6, 96}), k("k", dtype_of<TestType>, {11, 2, 96});
  copy_heads(q, 6, 0, 6, 0);
  copy_heads(k, 2, 6, 2, 0);
  for (const Design design : all_of_them) {
    QkHeads<TestType> in = packed.view();
    const TestType* const base = qkv.data<TestType>();
    in.q = heads_of(base, 11, 10, 96, 0, 6);
    in.k = heads_of(base, 11, 10, 96, 6, 2);
    CHECK(same_bits(run(in, shape, {.design = design}), expected));
    in.q = heads_of(std::as_const(q).template data<TestType>(), 11, 6, 96, 0, 6);
    in.k = heads_of(std::as_const(k).template data<TestType>(), 11, 2, 96, 0, 2);
    CHECK(same_bits(run(in, shape, {.design = design}), expected));
  }
  for (std::int64_t t = 0; t < 11; ++t) {
    for (std::int64_t j = 8 * 96; j < 10 * 96; ++j) {
      REQUIRE(qkv.data<TestType>()[t * 960 + j].bits == 0xFFFF);
    }
  }
}

TEST_CASE("a stride of zero repeats the heads of one token", "[operator]") {
  const Shape shape{.tokens = 4, .q_heads = 2, .kv_heads = 1};
  Inputs<bfloat16> in(shape);
  for (std::int64_t t = 1; t < 4; ++t) {
    std::copy_n(in.x.data<bfloat16>() + 2 * 128, 128, in.x.data<bfloat16>() + (3 * t + 2) * 128);
  }
  QkHeads<bfloat16> view = in.view();
  view.k.outer_stride = 0;
  for (const Design design : all_of_them) {
    CHECK(same_bits(run(view, shape, {.design = design}), run(in, {.design = design})));
  }
}

TEMPLATE_TEST_CASE("bases that are not aligned give the same bits", "[operator]", float16,
                   bfloat16) {
  const Shape shape{.tokens = 5};
  const Inputs<TestType> in(shape);
  const Outputs expected = run(in);
  Array moved("x", dtype_of<TestType>, in.x.shape(), 1);
  std::copy_n(in.x.raw(), in.x.bytes(), moved.raw());
  QkHeads<TestType> view = in.view();
  view.q.data = moved.data<TestType>();
  view.k.data = moved.data<TestType>() + 4 * 128;
  for (const Stores stores : {Stores::ordinary, Stores::streaming}) {
    const Outputs result = run(view, shape, {}, stores, 1);
    CHECK(same_bits(result, expected));
  }
}

TEMPLATE_TEST_CASE("a narrower rotation turns the last columns and leaves the others as they were",
                   "[operator]", float16, bfloat16) {
  const Inputs<TestType> none({.rope_dim = 0});
  const Outputs unturned = run(none);
  require_right(unturned, none);
  for (const std::int64_t rope_dim : {2, 64, 126, 128}) {
    const Inputs<TestType> in({.rope_dim = rope_dim});
    const Outputs result = run(in);
    require_right(result, in);
    std::int64_t moved = 0;
    for (std::int64_t i = 0; i < in.shape.rows(); ++i) {
      const float* const row = result.y.data<float>() + i * 128;
      const float* const before = unturned.y.data<float>() + i * 128;
      const std::int64_t kept = 128 - rope_dim;
      CHECK(std::memcmp(row, before, kept * 4) == 0);
      moved += std::memcmp(row + kept, before + kept, rope_dim * 4) != 0;
    }
    CHECK(moved >= in.shape.rows() - in.shape.heads());  // the first token's angles are 0
  }
}

TEST_CASE("64 columns that turn within 128 pair 32 apart, at frequencies of 64", "[operator]") {
  Inputs<bfloat16> in({.tokens = 2, .q_heads = 1, .kv_heads = 0, .rope_dim = 64});
  for (std::int64_t j = 0; j < 128; ++j) {
    in.at(1, j) = from_float<bfloat16>(j == 64 + 5 ? 1.0f : 0.0f);
    in.q_weight.data<bfloat16>()[j] = from_float<bfloat16>(1.0f);
  }
  const Outputs result = run(in, {.eps = 0});
  const double root = std::sqrt(128.0), angle = std::pow(10000.0, -2.0 * 5 / 64);
  // float32: the table, rstd, two products.
  const double tolerance = root * 8 * 0x1p-24;
  for (std::int64_t j = 0; j < 128; ++j) {
    const double expected = j == 64 + 5   ? root * std::cos(angle)
                            : j == 96 + 5 ? root * std::sin(angle)
                                          : 0.0;
    CHECK(std::fabs(result.y.value(128 + j) - expected) <= tolerance);
  }
}

TEMPLATE_TEST_CASE("positions pick the angles, as int32 and as int64", "[operator]", std::int32_t,
                   std::int64_t) {
  const Inputs<bfloat16> in({.tokens = 6, .table_rows = 50});
  const std::vector<TestType> rows{0, 1, 0, 41, 7, 49};
  Array positions("positions", dtype_of<TestType>, {6});
  std::copy(rows.begin(), rows.end(), positions.data<TestType>());
  for (const Design design : all_of_them) {
    const Outputs result = run(in, {.design = design, .rows_per_block = 64}, as_positions(rows));
    require_right(result, in, {}, &positions);
  }
}

TEST_CASE("two sequences of one token each turn by their own positions", "[operator]") {
  Inputs<bfloat16> in({.tokens = 2, .q_heads = 1, .kv_heads = 0, .table_rows = 100});
  std::copy_n(in.x.data<bfloat16>(), 128, in.x.data<bfloat16>() + 128);
  const std::vector<std::int64_t> apart{3, 90}, together{90, 90};
  const Outputs one = run(in, {}, as_positions(apart)), two = run(in, {}, as_positions(together));
  CHECK(std::memcmp(one.y.raw(), one.y.raw() + 512, 512) != 0);
  CHECK(std::memcmp(two.y.raw(), two.y.raw() + 512, 512) == 0);
  CHECK(std::memcmp(one.y.raw() + 512, two.y.raw(), 512) == 0);
}

TEST_CASE("a position beyond the table is refused before anything is written", "[operator]") {
  const Inputs<bfloat16> in({.tokens = 3, .table_rows = 50});
  for (const std::int64_t bad : {-1L, 50L, 1L << 40}) {
    const std::vector<std::int64_t> rows{0, bad, 1};
    Outputs outputs(in.shape);
    Fast fast;
    CHECK_THROWS_MATCHES(
        cpu::qk_norm_rope_quant(fast, in.view(as_positions(rows)), outputs.view()), ArgumentError,
        begins("positions: got " + std::to_string(bad) + " for token 1; allowed: 0 up to"));
    CHECK(untouched(outputs.codes));
    CHECK(untouched(outputs.scale));
  }
}

TEST_CASE("tables are built in double: no angle is lost at positions 2049 and 15962",
          "[operator]") {
  const Inputs<bfloat16> in({.tokens = 2, .table_rows = 16000});
  CHECK(in.cos.data<float>()[15962 * 64] == static_cast<float>(std::cos(15962.0)));
  CHECK(std::fabs(in.cos.value(15962 * 64) + 0.908016) < 5e-7);
  Array positions("positions", Dtype::int64, {2});
  positions.data<std::int64_t>()[0] = 2049;
  positions.data<std::int64_t>()[1] = 15962;
  const std::vector<std::int64_t> rows{2049, 15962};
  require_right(run(in, {}, as_positions(rows)), in, {}, &positions);
}

TEMPLATE_TEST_CASE("an amax of exactly 448 makes the scale 1 and the codes those of the values",
                   "[operator]", float16, bfloat16) {
  // Ties go to the even code: 17 lies between 16 and 18, 2^-10 between 0 and the smallest step.
  const Outputs result = quantised_values<TestType>(
      {448, -448, 1, -1, 17, 19, 0x1p-10f, 0x1p-9f, 3 * 0x1p-10f, -0.0f, 0, 432});
  CHECK(result.scale.value(0) == 1.0);
  const std::vector<int> expected{0x7E, 0xFE, 0x38, 0xB8, 0x58, 0x5A,
                                  0x00, 0x01, 0x02, 0x80, 0x00, 0x7E};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("value " << i);
    CHECK(result.code(static_cast<std::int64_t>(i)) == expected[i]);
  }
}

TEST_CASE("amax is floored at 1e-4, from where codes shrink", "[operator]") {
  CHECK(quantised_values<float16>({0x1p-14f, 0x1p-15f}).scale.value(0) == floor_scale());
  CHECK(quantised_values<float16>({0x1p-13f, 0x1p-15f}).scale.value(0) > floor_scale());
  const Outputs small = quantised_values<float16>({0x1p-14f, 0});
  CHECK(small.codes.value(0) == 288);  // 2^-14 / floor is 273.4: the codes there lie 32 apart
}

TEMPLATE_TEST_CASE("a head of zeros gets codes of zero and the floor's scale", "[operator]",
                   float16, bfloat16) {
  Inputs<TestType> in({});
  for (std::int64_t j = 0; j < 128; ++j) in.at(7, j) = from_float<TestType>(0.0f);
  for (const Design design : all_of_them) {
    const Outputs result = run(in, {.design = design});
    require_right(result, in);
    for (std::int64_t i = 0; i < in.shape.rows(); ++i) {
      CHECK((result.scale.value(i) == floor_scale()) == (i == 7));
    }
    for (std::int64_t j = 0; j < 128; ++j) CHECK((result.code(7 * 128 + j) & 0x7F) == 0);
  }
}

TEMPLATE_TEST_CASE("a NaN makes its head's scale NaN and its codes 0x7F, and no other head's",
                   "[operator]", float16, bfloat16) {
  Inputs<TestType> in({});
  const Outputs clean = run(in);
  in.at(9, 100) = from_float<TestType>(std::numeric_limits<float>::quiet_NaN());
  for (const Design design : all_of_them) {
    const Outputs result = run(in, {.design = design});
    for (std::int64_t i = 0; i < in.shape.rows(); ++i) {
      const double scale = result.scale.value(i);
      CHECK((i == 9 ? std::isnan(scale) : scale == clean.scale.value(i)));
      for (std::int64_t j = i * 128; j < (i + 1) * 128; ++j) {
        CHECK(result.code(j) == (i == 9 ? 0x7F : clean.code(j)));
      }
    }
  }
}

TEMPLATE_TEST_CASE("an Inf in a head makes NaN of it, as the formula does", "[operator]", float16,
                   bfloat16) {
  Inputs<TestType> in({});
  in.at(2, 5) = from_float<TestType>(infinity);  // rstd is 0, and Inf * 0 is NaN
  const Outputs result = run(in);
  CHECK(std::isnan(result.scale.value(2)));
  CHECK(result.code(2 * 128) == 0x7F);
  CHECK_FALSE(std::isnan(result.scale.value(1)));
}

TEST_CASE("large heads do not overflow: squares are added in float32", "[operator]") {
  Inputs<float16> in({.q_heads = 1, .kv_heads = 0});
  for (std::int64_t j = 0; j < 128; ++j) in.at(0, j) = from_float<float16>(65504.0f);
  require_right(run(in), in);
}

TEST_CASE("with eps 0 a head of zeros is NaN, as the formula has it", "[operator]") {
  Inputs<bfloat16> in({});
  for (std::int64_t j = 0; j < 128; ++j) in.at(0, j) = from_float<bfloat16>(0.0f);
  const Outputs result = run(in, {.eps = 0});
  CHECK(std::isnan(result.scale.value(0)));
  CHECK(result.code(0) == 0x7F);
  CHECK_FALSE(std::isnan(result.scale.value(1)));
}

TEST_CASE("y / scale saturates at 448 and never becomes NaN", "[operator]") {
  // A head's own amax never lets y / scale pass 448: the primitive itself, with scale 1.
  std::vector<float> x;
  for (int i = 0; i < 16; ++i) x.insert(x.end(), {448, 463, 464, 465, 500, -500, 1e30f, -465});
  const Row<const float> row{x.data(), static_cast<std::int64_t>(x.size())};
  std::vector<float8_e4m3fn> codes(x.size());
  ScratchSpace scratch;
  FastRow(scratch, false).quantise({codes.data(), row.size}, row, 1.0f);
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(codes[i].bits == (x[i] > 0 ? 0x7E : 0xFE));
}

TEMPLATE_TEST_CASE("unfused makes the codes of its own rounded intermediates", "[operator]",
                   float16, bfloat16) {
  const Inputs<TestType> in({.tokens = 9, .rope_dim = 64});
  const Shape& s = in.shape;
  Outputs result(s);
  Array normed("normed", dtype_of<TestType>, in.x.shape()),
      rotated("rotated", normed.dtype(), in.x.shape());
  Fast fast;
  cpu::qk_norm_rope_quant_unfused(
      fast, in.view(), result.view(false),
      QkIntermediates<TestType>{normed.rows<TestType>(), rotated.rows<TestType>()});
  const reference::Reference expected =
      reference::normed({in.x, s.tokens, s.q_heads, s.kv_heads, &in.q_weight, &in.k_weight, 1e-6f});
  require(compare(normed, expected.expected, expected.tolerance_ulp));
  const reference::Reference turned = reference::rotated(normed, s.heads(), {in.cos, in.sin});
  require(compare(rotated, turned.expected, turned.tolerance_ulp));
  const reference::Quantisation codes = reference::quantise(rotated);
  require(compare_bits(result.scale, codes.scale));
  require(compare_bits(result.codes, codes.codes));
  // Two roundings in between: not the codes of the fused plan.
  CHECK_FALSE(same_bits(result.codes, run(in).codes));
}

TEST_CASE("the operator refuses what it cannot do, names it and writes nothing", "[operator]") {
  const Inputs<bfloat16> in({});
  Outputs outputs(in.shape);
  Fast fast;
  const auto refused = [&](auto change, const std::string& text) {
    QkHeads<bfloat16> view = in.view();
    QuantisedHeads out = outputs.view();
    QkOptions options;
    change(view, out, options);
    CHECK_THROWS_MATCHES(cpu::qk_norm_rope_quant(fast, view, out, options), ArgumentError,
                         begins(text));
  };
  refused([](auto& in, auto&, auto&) { in.q.cols = in.k.cols = 127; },
          "q: got 127 columns; allowed: an even number");
  refused([](auto& in, auto&, auto&) { in.k.cols = 64; }, "k: got [3, 2, 64]; allowed: ");
  refused([](auto& in, auto&, auto&) { in.k.outer = 2; }, "k: got [2, 2, 128]; allowed: ");
  refused([](auto& in, auto&, auto&) { in.q_weight.size = 64; }, "q_weight: got 64 elements");
  refused([](auto& in, auto&, auto&) { in.k_weight.size = 0; }, "k_weight: got 0 elements");
  refused([](auto& in, auto&, auto&) { in.rope.cos.cols = in.rope.sin.cols = 65; },
          "cos: got 65 columns; allowed: at most 64");
  refused([](auto& in, auto&, auto&) { in.rope.sin.cols = 32; }, "sin: got [3, 32]");
  refused([](auto& in, auto&, auto&) { in.rope.cos.outer = 2; }, "cos: got [2, 64]");
  for (const std::int64_t rows : {-8, 0, 1, 65}) {
    refused(
        [=](auto&, auto&, QkOptions& options) {
          options.design = Design::B;
          options.rows_per_block = rows;
        },
        "rows_per_block: got " + std::to_string(rows) + "; allowed: 2 to 64");
  }
  refused([](auto&, auto&, QkOptions& options) { options.eps = -1; }, "eps: got");
  refused([](auto&, auto&, QkOptions& options) { options.eps = infinity; }, "eps: got");
  refused([](auto&, auto& out, auto&) { out.scale.size = 3; }, "scale: got 3 elements");
  refused([](auto&, auto& out, auto&) { out.codes.cols = 64; }, "codes: got [18, 64]");
  refused(
      [&](auto& in, auto& out, auto&) {
        auto* const bytes = const_cast<bfloat16*>(in.q.data);
        out.codes.data = reinterpret_cast<float8_e4m3fn*>(bytes);
      },
      "codes: overlaps q");
  CHECK(untouched(outputs.codes));
  CHECK(untouched(outputs.scale));
  CHECK(untouched(outputs.y));
}
