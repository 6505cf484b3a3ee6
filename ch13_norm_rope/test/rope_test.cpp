#include "ch13_norm_rope/rope.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <cmath>
#include <limits>
#include <memory>

#include "rotation_test.hpp"

using namespace opbook;
using namespace opbook::ch13;

namespace {

/// A [tokens, heads, rd] array as the operator takes it.
template <class T, class A>
auto heads_of(A& array) {
  const std::int64_t tokens = array.shape()[0], heads = array.shape()[1], rd = array.shape()[2];
  using Element = std::remove_pointer_t<decltype(array.template data<T>())>;
  return Rows<Element>{array.template data<T>(), tokens, heads, rd, heads * rd, rd};
}

template <class T>
Array turned(const Array& x, const RopeTables<T>& tables, Stores stores = Stores::automatic,
             std::int64_t offset = 0) {
  Array y("y", x.dtype(), x.shape(), offset);
  Fast fast(stores);
  cpu::rope(fast, heads_of<T>(x), tables, heads_of<T>(y));
  REQUIRE(y.guards_intact());
  return y;
}

}  // namespace

TEMPLATE_TEST_CASE("rope agrees with the reference at widths that break vector loops", "[rope]",
                   float, float16, bfloat16) {
  for (const std::int64_t rd : {2, 4, 6, 14, 30, 32, 34, 64, 128, 514, 770, 1368, 3584, 65536}) {
    const Array x = filled("x", dtype_of<TestType>, {3, 2, rd});
    const AngleTables<TestType> tables(3, rd);
    const reference::Reference expected = reference::rope(x, tables.reference());
    for (const Stores stores : {Stores::ordinary, Stores::streaming}) {
      require(compare(turned<TestType>(x, tables.view(), stores), expected.expected,
                      expected.tolerance_ulp));
    }
  }
}

TEMPLATE_TEST_CASE("rope's plans pass every check at ragged shapes, replay included", "[rope]",
                   float, float16, bfloat16) {
  for (const std::int64_t tokens : {1, 2, 13}) {
    for (const std::int64_t heads : {1, 3, 8}) {
      for (const std::int64_t rope_dim : {2, 10, 64, 130}) {
        Arguments arguments{
            .tokens = tokens, .heads = heads, .rope_dim = rope_dim, .dtype = dtype_of<TestType>};
        require_every_check("rope", arguments, tokens % 2);
        // A quarter of the table's rows are named: replay reads those, once, and the indices.
        arguments.positions = {8, std::min<std::int64_t>(tokens, 2), Dtype::int32};
        require_every_check("rope", arguments);
      }
    }
  }
}

TEST_CASE("rope takes more tokens than a grid has blocks in y", "[rope]") {
  for (const std::int64_t tokens : {65536, 70001}) {
    const Array x = filled("x", Dtype::bfloat16, {tokens, 2, 4});
    const AngleTables<bfloat16> tables(tokens, 4);
    const reference::Reference expected = reference::rope(x, tables.reference());
    require(compare(turned<bfloat16>(x, tables.view()), expected.expected, expected.tolerance_ulp));
  }
}

TEST_CASE("rope of no tokens, no heads or no columns touches nothing", "[rope]") {
  const AngleTables<float> tables(3, 8);
  Fast fast;
  const Rows<const float> empty = contiguous_rows<const float>(nullptr, 3, 8);
  const auto call = [&](std::int64_t tokens, std::int64_t heads, std::int64_t rd,
                        const RopeTables<float>& with) {
    cpu::rope(fast, Rows<const float>{nullptr, tokens, heads, rd, heads * rd, rd}, with,
              Rows<float>{nullptr, tokens, heads, rd, heads * rd, rd});
  };
  call(0, 2, 8, {strided_rows(empty.data, 0, 4, 4), strided_rows(empty.data, 0, 4, 4)});
  call(3, 0, 8, tables.view());
  call(3, 2, 0, {});
  SUCCEED("returned");
}

TEMPLATE_TEST_CASE("rope gives the same bits on bases that no register is aligned to", "[rope]",
                   float, float16, bfloat16) {
  const AngleTables<TestType> tables(7, 74);
  const Array x = filled("x", dtype_of<TestType>, {7, 3, 74});
  const Array aligned = turned<TestType>(x, tables.view());
  for (const std::int64_t offset : {1, 2, 3, 5}) {
    const Array moved = filled("x", dtype_of<TestType>, {7, 3, 74}, offset);
    REQUIRE(same_bits(moved, x));
    CHECK(same_bits(turned<TestType>(moved, tables.view(), Stores::streaming, offset), aligned));
    CHECK(same_bits(turned<TestType>(x, tables.view(), Stores::streaming, offset), aligned));
  }
}

TEMPLATE_TEST_CASE("rope in place gives the bits that it gives out of place", "[rope]", float,
                   float16, bfloat16) {
  for (const Stores stores : {Stores::ordinary, Stores::streaming}) {
    const AngleTables<TestType> tables(9, 66);
    Array x = filled("x", dtype_of<TestType>, {9, 4, 66});
    const Array y = turned<TestType>(x, tables.view());
    Fast fast(stores);
    cpu::rope(fast, heads_of<TestType>(x), tables.view(), heads_of<TestType>(x));
    CHECK(same_bits(x, y));
  }
}

TEST_CASE("rope of q and k as slices of a packed tensor is that of copies; v is left alone",
          "[rope]") {
  constexpr std::int64_t tokens = 5, heads = 6, dh = 40;  // three of q, two of k, one of v
  const Array qkv = filled("qkv", Dtype::float16, {tokens, heads, dh});
  const AngleTables<float16> tables(tokens, dh);
  Array packed("packed", Dtype::float16, {tokens, heads, dh});
  Fast fast;
  for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {3, 2}}) {
    const Rows<const float16> slice{
        qkv.data<float16>() + first * dh, tokens, count, dh, heads * dh, dh};
    const Rows<float16> out{packed.data<float16>() + first * dh, tokens, count, dh, heads * dh, dh};
    cpu::rope(fast, slice, tables.view(), out);

    Array copy("copy", Dtype::float16, {tokens, count, dh});
    for (std::int64_t i = 0; i < tokens * count; ++i) {
      std::copy_n(slice.row(i).data, dh, copy.data<float16>() + i * dh);
    }
    const Array y = turned<float16>(copy, tables.view());
    for (std::int64_t i = 0; i < tokens * count; ++i) {
      CHECK(same_bits(out.row(i).data, y.data<float16>() + i * dh, dh * 2));
    }
  }
  for (std::int64_t t = 0; t < tokens; ++t) {
    const Row<float16> v{packed.data<float16>() + (t * heads + 5) * dh, dh};
    for (std::int64_t j = 0; j < dh; ++j) CHECK(v.data[j].bits == 0xFFFF);
  }
}

TEST_CASE("rope turns a head that is repeated by stride 0 like any other", "[rope]") {
  const Array x = filled("x", Dtype::bfloat16, {3, 1, 48});
  const AngleTables<bfloat16> tables(3, 48);
  Array y("y", Dtype::bfloat16, {3, 4, 48});
  Fast fast;
  cpu::rope(fast, Rows<const bfloat16>{x.data<bfloat16>(), 3, 4, 48, 48, 0}, tables.view(),
            heads_of<bfloat16>(y));
  const Array once = turned<bfloat16>(x, tables.view());
  for (std::int64_t i = 0; i < 12; ++i) {  // a token's angles serve all its heads
    CHECK(same_bits(y.data<bfloat16>() + i * 48, once.data<bfloat16>() + i / 4 * 48, 96));
  }
}

TEST_CASE("pairs lie rd / 2 apart and turn by theta^(-2i / rd)", "[rope]") {
  // One in column i, zero elsewhere: its pair becomes cos and sin of the angle.
  constexpr std::int64_t rd = 64, position = 7;
  const AngleTables<float> tables(position + 1, rd);
  for (std::int64_t i = 0; i < rd / 2; ++i) {
    Array x = filled_with<float>("x", {1, 1, rd}, 0);
    x.data<float>()[i] = 1.0f;
    const std::vector<std::int32_t> at{position};
    const Array y = turned<float>(x, tables.view(as_positions(at)));
    const double angle = position * std::pow(10000.0, -2.0 * static_cast<double>(i) / rd);
    for (std::int64_t j = 0; j < rd; ++j) {
      const double expected = j == i ? std::cos(angle) : j == i + 32 ? std::sin(angle) : 0;
      INFO("pair " << i << " column " << j);
      CHECK(y.value(j) == round_to(Dtype::float32, expected));
    }
  }
}

TEMPLATE_TEST_CASE("angles far out are those of the position, not of its 16-bit neighbour",
                   "[rope]", float, float16, bfloat16) {
  const AngleTables<TestType> tables(15963, 2);  // one pair: the angle is the position itself
  const std::vector<std::int64_t> positions{2049, 15962};
  Array x = filled_with<TestType>("x", {2, 1, 2}, 0);
  x.data<TestType>()[0] = x.data<TestType>()[2] = from_float<TestType>(1.0f);
  const Array y = turned<TestType>(x, tables.view(as_positions(positions)));
  const Dtype dtype = dtype_of<TestType>;
  CHECK(y.value(0) == round_to(dtype, std::cos(2049.0)));
  CHECK(y.value(1) == round_to(dtype, std::sin(2049.0)));
  CHECK(y.value(2) == round_to(dtype, std::cos(15962.0)));
  CHECK(std::fabs(std::cos(15962.0) - -0.908016) < 5e-7);
  CHECK(y.value(3) == round_to(dtype, std::sin(15962.0)));
  CHECK(y.value(2) != round_to(dtype, std::cos(15936.0)));
}

TEMPLATE_TEST_CASE("positions pick the tables' rows, as int32 and as int64", "[rope]", float,
                   bfloat16) {
  const AngleTables<TestType> tables(6, 36);
  const Array x = filled("x", dtype_of<TestType>, {7, 2, 36});
  const std::vector<std::int32_t> narrow{0, 1, 0, 1, 5, 5, 2};  // restarting, repeating, skipping
  const std::vector<std::int64_t> wide(narrow.begin(), narrow.end());
  const Array expected = turned<TestType>(x, gathered(tables, narrow).view());
  CHECK(same_bits(turned<TestType>(x, tables.view(as_positions(narrow))), expected));
  CHECK(same_bits(turned<TestType>(x, tables.view(as_positions(wide))), expected));
}

TEST_CASE("a batch of sequences of length 1 turns each by its own position", "[rope]") {
  const AngleTables<bfloat16> tables(100, 16);
  const Array x = filled("x", Dtype::bfloat16, {3, 2, 16});
  const std::vector<std::int64_t> positions{41, 7, 99};
  const Array y = turned<bfloat16>(x, tables.view(as_positions(positions)));
  for (std::int64_t b = 0; b < 3; ++b) {
    Array alone("x", Dtype::bfloat16, {1, 2, 16});
    std::copy_n(x.data<bfloat16>() + b * 32, 32, alone.data<bfloat16>());
    const Array one = turned<bfloat16>(alone, gathered(tables, std::vector{positions[b]}).view());
    CHECK(same_bits(one.raw(), y.data<bfloat16>() + b * 32, 64));
  }
}

TEST_CASE("a position that the tables do not have is refused before anything is written",
          "[rope]") {
  const AngleTables<float> tables(4, 8);
  const Array x = filled("x", Dtype::float32, {3, 1, 8});
  Array y("y", Dtype::float32, {3, 1, 8});
  Fast fast;
  const auto call = [&](const Positions& positions) {
    cpu::rope(fast, heads_of<float>(x), tables.view(positions), heads_of<float>(y));
  };
  CHECK_THROWS_MATCHES(call(as_positions(std::vector<std::int64_t>{0, 3, 4})), ArgumentError,
                       begins("positions: got 4 for token 2; allowed: 0 up to"));
  CHECK_THROWS_MATCHES(call(as_positions(std::vector<std::int32_t>{0, -1, 3})), ArgumentError,
                       begins("positions: got -1 for token 1"));
  CHECK_THROWS_MATCHES(call(as_positions(std::vector<std::int64_t>{0, std::int64_t{1} << 40, 3})),
                       ArgumentError, begins("positions: got 1099511627776"));
  CHECK_THROWS_MATCHES(call(as_positions(std::vector<std::int64_t>{0, 1})), ArgumentError,
                       begins("positions: got 2 elements; allowed: 3"));
  CHECK(untouched(y));
}

TEST_CASE("rope refuses what it cannot do, and names it", "[rope]") {
  Array x = filled("x", Dtype::float32, {4, 2, 8});
  Array y("y", Dtype::float32, {4, 2, 8});
  AngleTables<float> tables(4, 8);
  Fast fast;
  const auto call = [&](Rows<const float> in, const RopeTables<float>& with, Rows<float> out) {
    cpu::rope(fast, in, with, out);
  };
  const Rows<float> in = heads_of<float>(x), out = heads_of<float>(y);
  const auto with_cols = [](Rows<float> rows, std::int64_t cols) {
    rows.cols = cols;
    return rows;
  };
  CHECK_THROWS_MATCHES(call(with_cols(in, 7), tables.view(), with_cols(out, 7)), ArgumentError,
                       begins("x: got 7 columns; allowed: an even number"));
  CHECK_THROWS_MATCHES(call(in, tables.view(), with_cols(out, 6)), ArgumentError,
                       begins("y: got [4, 2, 6]; allowed: [4, 2, 8]"));
  CHECK_THROWS_MATCHES(call(in, tables.view(), contiguous_rows(out.data, 8, 8)), ArgumentError,
                       begins("y: got [8, 1, 8]; allowed: [4, 2, 8]"));
  CHECK_THROWS_MATCHES(call(in, AngleTables<float>(4, 6).view(), out), ArgumentError,
                       begins("cos: got [4, 3]; allowed: [4, 4]"));
  CHECK_THROWS_MATCHES(call(in, AngleTables<float>(8, 8).view(), out), ArgumentError,
                       begins("cos: got [8, 4]; allowed: [4, 4]"));
  RopeTables<float> uneven = tables.view();
  uneven.sin.outer = 3;
  CHECK_THROWS_MATCHES(call(in, uneven, out), ArgumentError,
                       begins("sin: got [3, 4]; allowed: [4, 4]"));
  CHECK_THROWS_MATCHES(call(in, tables.view(), {in.data + 1, 4, 2, 8, 16, 8}), ArgumentError,
                       begins("y: overlaps x"));
  CHECK_THROWS_MATCHES(call(in, tables.view(), {out.data, 4, 2, 8, 16, 7}), ArgumentError,
                       begins("y: got strides"));
  CHECK_THROWS_MATCHES(
      call({in.data, 1, 1, 8, 8, 8}, {{tables.cos.data<float>(), 1, 1, 4, 4, 0}, tables.view().sin},
           {tables.cos.data<float>(), 1, 1, 8, 8, 8}),
      ArgumentError, begins("sin: got"));
  RopeTables<float> one = tables.view();
  one.cos.outer = one.sin.outer = 1;
  CHECK_THROWS_MATCHES(
      call({in.data, 1, 1, 8, 8, 8}, one, {tables.sin.data<float>(), 1, 1, 8, 8, 8}), ArgumentError,
      begins("y: overlaps sin"));
  CHECK(untouched(y));
}

TEMPLATE_TEST_CASE("a NaN stays in its pair", "[rope]", float, float16, bfloat16) {
  const AngleTables<TestType> tables(2, 40);
  Array x = filled("x", dtype_of<TestType>, {2, 2, 40});
  const Array clean = turned<TestType>(x, tables.view());
  const std::int64_t at = 2 * 40 + 3;  // the second token's first head, column 3
  x.data<TestType>()[at] = from_float<TestType>(std::numeric_limits<float>::quiet_NaN());
  const Array y = turned<TestType>(x, tables.view());
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    if (i == at || i == at + 20) {
      CHECK(std::isnan(y.value(i)));
    } else {
      CHECK(y.value(i) == clean.value(i));
    }
  }
}

TEMPLATE_TEST_CASE("fused, rope rounds once; unfused, also what it stores between", "[rope]",
                   float16, bfloat16) {
  const Arguments arguments{.tokens = 40, .heads = 2, .rope_dim = 64, .dtype = dtype_of<TestType>};
  const Problem problem = find_operator("rope")->make_problem(arguments);
  Tensors tensors(problem.tensors);
  fill_inputs(problem, tensors, 2);
  Fast fast;
  CHECK(unfused_end_to_end_ulp(problem, tensors, run_on_cpu(problem, fast)) > 1.0);
  require_every_check("rope", arguments);  // the fused one stays within half an ulp and a little
}
