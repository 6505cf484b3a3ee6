#include "ch13_norm_rope/rms_norm.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "ch13_norm_rope/operators.hpp"
#include "ch13_norm_rope/reference.hpp"
#include "common/random.hpp"
#include "common/verify_problem.hpp"

using namespace opbook;
using namespace opbook::ch13;

namespace {

Array filled(const char* name, Dtype dtype, std::vector<std::int64_t> shape,
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
void fill_with(Array& array, float value) {
  for (std::int64_t i = 0; i < array.elements(); ++i) array.data<T>()[i] = from_float<T>(value);
}

template <class T>
Verdict run_and_compare(const Array& x, const Array& w, const RmsNormOptions& options = {}) {
  Array y("y", dtype_of<T>, x.shape());
  Fast fast;
  cpu::rms_norm(fast, x.rows<T>(), w.row<T>(), y.rows<T>(), options);
  const reference::Reference expected = reference::rms_norm(x, w, options);
  return compare(y, expected.expected, expected.tolerance_ulp);
}

bool same_bits(const void* a, const void* b, std::int64_t bytes) {
  return std::memcmp(a, b, bytes) == 0;
}

}  // namespace

TEMPLATE_TEST_CASE("rms_norm agrees with the reference at widths that break vector loops",
                   "[rms_norm]", float, float16, bfloat16) {
  for (const std::int64_t n : {769, 1368, 3584, 5 * 1024, 513, 1, 2, 3, 7, 65536}) {
    const Array x = filled("x", dtype_of<TestType>, {3, n});
    const Array w = filled("w", dtype_of<TestType>, {n});
    require(run_and_compare<TestType>(x, w));
  }
}

TEMPLATE_TEST_CASE("rms_norm's plans pass every check at ragged shapes, replay included",
                   "[rms_norm]", float, float16, bfloat16) {
  for (const std::int64_t m : {1, 2, 13}) {
    for (const std::int64_t n : {1, 5, 31, 33, 160, 1023}) {
      for (const int weight_offset : {0, 1}) {
        const Arguments arguments{
            .m = m, .n = n, .dtype = dtype_of<TestType>, .weight_offset = weight_offset};
        const Problem problem = find_operator("rms_norm")->make_problem(arguments);
        Tensors tensors(problem.tensors, m % 2);
        fill_inputs(problem, tensors, m + n);
        Fast fast;
        for (const Finding& finding : verify_problem(problem, tensors, fast)) {
          INFO("m " << m << " n " << n << ' ' << finding.plan << ' ' << finding.kernel << ' '
                    << finding.detail);
          REQUIRE(finding.pass);
        }
      }
    }
  }
}

TEST_CASE("rms_norm takes more rows than a grid has blocks in y", "[rms_norm]") {
  for (const std::int64_t m : {65536, 70001}) {
    const Array x = filled("x", Dtype::bfloat16, {m, 8});
    const Array w = filled("w", Dtype::bfloat16, {8});
    require(run_and_compare<bfloat16>(x, w));
  }
}

TEST_CASE("rms_norm of no rows is empty, and touches nothing", "[rms_norm]") {
  Array w = filled("w", Dtype::float32, {4});
  Fast fast;
  cpu::rms_norm<Fast, float>(fast, contiguous_rows<const float>(nullptr, 0, 4), w.row<float>(),
                             contiguous_rows<float>(nullptr, 0, 4));
  cpu::rms_norm<Fast, float>(fast, contiguous_rows<const float>(nullptr, 3, 0), {},
                             contiguous_rows<float>(nullptr, 3, 0));
  SUCCEED("returned");
}

TEMPLATE_TEST_CASE("rms_norm gives the same bits on bases that no register is aligned to",
                   "[rms_norm]", float, float16, bfloat16) {
  const std::int64_t m = 7, n = 515;
  const Array x = filled("x", dtype_of<TestType>, {m, n});
  const Array w = filled("w", dtype_of<TestType>, {n});
  Array aligned("y", dtype_of<TestType>, {m, n});
  Fast fast(Stores::streaming);
  cpu::rms_norm(fast, x.rows<TestType>(), w.row<TestType>(), aligned.rows<TestType>());
  for (const std::int64_t offset : {1, 2, 3, 5}) {
    const Array moved_x = filled("x", dtype_of<TestType>, {m, n}, offset);
    REQUIRE(same_bits(moved_x.raw(), x.raw(), x.bytes()));
    Array y("y", dtype_of<TestType>, {m, n}, offset);
    cpu::rms_norm(fast, moved_x.rows<TestType>(), w.row<TestType>(), y.rows<TestType>());
    CHECK(same_bits(y.raw(), aligned.raw(), y.bytes()));
    CHECK(y.guards_intact());
  }
}

TEST_CASE("rms_norm of slices of a packed tensor is that of contiguous copies", "[rms_norm]") {
  // [tokens, q heads + k heads + v heads, dh]: q is the first three of six heads, k the next two.
  constexpr std::int64_t tokens = 5, heads = 6, dh = 40;
  const Array qkv = filled("qkv", Dtype::float16, {tokens, heads, dh});
  const Array w = filled("w", Dtype::float16, {dh});
  Array packed("packed", Dtype::float16, {tokens, heads, dh});
  const std::vector<std::byte> untouched(packed.raw(), packed.raw() + packed.bytes());
  Fast fast;
  for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {3, 2}}) {
    const Rows<const float16> slice{
        qkv.data<float16>() + first * dh, tokens, count, dh, heads * dh, dh};
    const Rows<float16> out{packed.data<float16>() + first * dh, tokens, count, dh, heads * dh, dh};
    cpu::rms_norm(fast, slice, w.row<float16>(), out);

    Array copy("copy", Dtype::float16, {tokens * count, dh});
    Array y("y", Dtype::float16, {tokens * count, dh});
    for (std::int64_t i = 0; i < tokens * count; ++i) {
      std::memcpy(copy.data<float16>() + i * dh, slice.row(i).data, dh * 2);
    }
    cpu::rms_norm(fast, copy.rows<float16>(), w.row<float16>(), y.rows<float16>());
    for (std::int64_t i = 0; i < tokens * count; ++i) {
      CHECK(same_bits(out.row(i).data, y.data<float16>() + i * dh, dh * 2));
    }
  }
  for (std::int64_t t = 0; t < tokens; ++t) {  // v's place in the output was left alone
    CHECK(same_bits(packed.data<float16>() + (t * heads + 5) * dh, untouched.data(), dh * 2));
  }
}

TEST_CASE("rms_norm repeats a row of stride 0", "[rms_norm]") {
  const Array x = filled("x", Dtype::bfloat16, {1, 48});
  const Array w = filled("w", Dtype::bfloat16, {48});
  Array y("y", Dtype::bfloat16, {4, 48});
  Fast fast;
  cpu::rms_norm(fast, strided_rows(x.data<bfloat16>(), 4, 48, 0), w.row<bfloat16>(),
                y.rows<bfloat16>());
  for (int i = 1; i < 4; ++i) {
    CHECK(same_bits(y.data<bfloat16>(), y.data<bfloat16>() + i * 48, 96));
  }
}

TEST_CASE("rms_norm's rows are the product of the leading dimensions", "[rms_norm]") {
  const Array x = filled("x", Dtype::bfloat16, {52, 7, 64});
  const Array w = filled("w", Dtype::bfloat16, {64});
  require(run_and_compare<bfloat16>(x, w));
}

TEMPLATE_TEST_CASE("rms_norm in place gives the bits that it gives out of place", "[rms_norm]",
                   float, float16, bfloat16) {
  for (const Stores stores : {Stores::ordinary, Stores::streaming}) {
    Array x = filled("x", dtype_of<TestType>, {9, 770});
    const Array w = filled("w", dtype_of<TestType>, {770});
    Array y("y", dtype_of<TestType>, {9, 770});
    Fast fast(stores);
    cpu::rms_norm(fast, x.rows<TestType>(), w.row<TestType>(), y.rows<TestType>());
    cpu::rms_norm(fast, x.rows<TestType>(), w.row<TestType>(), x.rows<TestType>());
    CHECK(same_bits(x.raw(), y.raw(), x.bytes()));
  }
}

TEST_CASE("rms_norm refuses what it cannot do, and names it", "[rms_norm]") {
  Array x = filled("x", Dtype::float32, {4, 8});
  Array w = filled("w", Dtype::float32, {8});
  Array y("y", Dtype::float32, {4, 8});
  Fast fast;
  const auto call = [&](Rows<const float> in, Row<const float> weight, Rows<float> out,
                        const RmsNormOptions& options = {}) {
    cpu::rms_norm(fast, in, weight, out, options);
  };
  using Catch::Matchers::MessageMatches;
  const auto names = [](const std::string& text) {
    return MessageMatches(Catch::Matchers::StartsWith(text));
  };
  CHECK_THROWS_MATCHES(call(x.rows<float>(), {w.data<float>(), 7}, y.rows<float>()), ArgumentError,
                       names("w: got 7 elements; allowed: 8"));
  CHECK_THROWS_MATCHES(
      call(x.rows<float>(), w.row<float>(), contiguous_rows(y.data<float>(), 3, 8)), ArgumentError,
      names("y: got [3, 8]; allowed: [4, 8]"));
  CHECK_THROWS_MATCHES(call(contiguous_rows<const float>(x.data<float>(), 3, 8), w.row<float>(),
                            contiguous_rows(x.data<float>() + 8, 3, 8)),
                       ArgumentError, names("y: overlaps x"));
  CHECK_THROWS_MATCHES(call(contiguous_rows<const float>(x.data<float>(), 1, 8), w.row<float>(),
                            contiguous_rows(w.data<float>(), 1, 8)),
                       ArgumentError, names("y: overlaps w"));
  CHECK_THROWS_MATCHES(
      call(x.rows<float>(), w.row<float>(), strided_rows(y.data<float>(), 4, 8, 7)), ArgumentError,
      names("y: got strides"));
  for (const float eps :
       {-1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    CHECK_THROWS_MATCHES(call(x.rows<float>(), w.row<float>(), y.rows<float>(), {.eps = eps}),
                         ArgumentError, names("eps: got"));
  }
  CHECK_THROWS_MATCHES(call(x.rows<float>(), w.row<float>(), y.rows<float>(), {.weight_offset = 2}),
                       ArgumentError, names("weight_offset: got 2; allowed: 0, 1"));
}

TEST_CASE("rounding before the weight is Hugging Face's, bit for bit", "[rms_norm]") {
  // The module, step by step on values: float32 variance and rstd, x * rstd rounded to bfloat16,
  // times w rounded again.
  constexpr std::int64_t m = 50, n = 256;
  const Array x = filled("x", Dtype::bfloat16, {m, n});
  const Array w = filled("w", Dtype::bfloat16, {n});
  Array y("y", Dtype::bfloat16, {m, n}), once("once", Dtype::bfloat16, {m, n});
  Fast fast;
  cpu::rms_norm(fast, x.rows<bfloat16>(), w.row<bfloat16>(), y.rows<bfloat16>(),
                {.rounding = Rounding::before_weight});
  cpu::rms_norm(fast, x.rows<bfloat16>(), w.row<bfloat16>(), once.rows<bfloat16>());
  int differ = 0;
  for (std::int64_t i = 0; i < m; ++i) {
    float lanes[32] = {};
    for (std::int64_t j = 0; j < n; ++j) {
      const float v = to_float(x.data<bfloat16>()[i * n + j]);
      lanes[j % 32] += v * v;
    }
    for (int half = 16; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    const float rstd = 1.0f / std::sqrt(lanes[0] / 256.0f + 1e-6f);
    for (std::int64_t j = 0; j < n; ++j) {
      const double v = x.value(i * n + j), g = w.value(j);
      const double normalised = round_to(Dtype::bfloat16, round_to(Dtype::float32, v * rstd));
      const double expected = round_to(Dtype::bfloat16, normalised * g);
      REQUIRE(y.value(i * n + j) == expected);
      differ += y.value(i * n + j) != once.value(i * n + j);
    }
  }
  CHECK(differ > 0);  // the two roundings are not the same thing
}

TEMPLATE_TEST_CASE("both roundings and both weight offsets stay within their tolerances",
                   "[rms_norm]", float, float16, bfloat16) {
  const Array x = filled("x", dtype_of<TestType>, {20, 1000});
  const Array w = filled("w", dtype_of<TestType>, {1000});
  for (const Rounding rounding : {Rounding::once, Rounding::before_weight}) {
    for (const int offset : {0, 1}) {
      require(run_and_compare<TestType>(x, w, {.rounding = rounding, .weight_offset = offset}));
    }
  }
}

TEST_CASE("Gemma's 1 + w is formed in float32", "[rms_norm]") {
  // One column: xhat = x / sqrt(x^2 + eps) is 1. bfloat16 would make 16.75 of 1 + 15.8125.
  Array x("x", Dtype::float32, {1, 1}), w("w", Dtype::float32, {1}), y("y", Dtype::float32, {1, 1});
  x.data<float>()[0] = 1024.0f;
  w.data<float>()[0] = 15.8125f;
  Fast fast;
  cpu::rms_norm(fast, x.rows<float>(), w.row<float>(), y.rows<float>(), {.weight_offset = 1});
  CHECK(y.data<float>()[0] == 16.8125f);
}

TEST_CASE("a weight of zero with offset 1 leaves the normalised value", "[rms_norm]") {
  const Array x = filled("x", Dtype::bfloat16, {3, 64});
  Array zero("w", Dtype::bfloat16, {64}), one("w", Dtype::bfloat16, {64});
  fill_with<bfloat16>(zero, 0.0f);
  fill_with<bfloat16>(one, 1.0f);
  Array shifted("y", Dtype::bfloat16, {3, 64}), plain("y", Dtype::bfloat16, {3, 64});
  Fast fast;
  cpu::rms_norm(fast, x.rows<bfloat16>(), zero.row<bfloat16>(), shifted.rows<bfloat16>(),
                {.weight_offset = 1});
  cpu::rms_norm(fast, x.rows<bfloat16>(), one.row<bfloat16>(), plain.rows<bfloat16>());
  CHECK(same_bits(shifted.raw(), plain.raw(), plain.bytes()));
  CHECK(plain.value(0) != 0.0);
}

TEST_CASE("a row of zeros gives zeros with eps, and NaN without", "[rms_norm]") {
  Array x("x", Dtype::float16, {2, 33}), y("y", Dtype::float16, {2, 33});
  fill_with<float16>(x, 0.0f);
  for (int j = 0; j < 33; ++j) x.data<float16>()[33 + j] = from_float<float16>(1.0f + j);
  const Array w = filled("w", Dtype::float16, {33});
  Fast fast;
  cpu::rms_norm(fast, x.rows<float16>(), w.row<float16>(), y.rows<float16>());
  for (int j = 0; j < 33; ++j) CHECK(y.value(j) == 0.0);
  cpu::rms_norm(fast, x.rows<float16>(), w.row<float16>(), y.rows<float16>(), {.eps = 0});
  for (int j = 0; j < 33; ++j) {
    CHECK(std::isnan(y.value(j)));
    CHECK(std::isfinite(y.value(33 + j)));  // the row beside it does not notice
  }
}

TEMPLATE_TEST_CASE("NaN and Inf stay in their row", "[rms_norm]", float, float16, bfloat16) {
  Array x = filled("x", dtype_of<TestType>, {3, 100});
  const Array w = filled("w", dtype_of<TestType>, {100});
  Array clean("y", dtype_of<TestType>, {3, 100}), y("y", dtype_of<TestType>, {3, 100});
  Fast fast;
  cpu::rms_norm(fast, x.rows<TestType>(), w.row<TestType>(), clean.rows<TestType>());
  x.data<TestType>()[117] = from_float<TestType>(std::numeric_limits<float>::quiet_NaN());
  x.data<TestType>()[250] = from_float<TestType>(std::numeric_limits<float>::infinity());
  cpu::rms_norm(fast, x.rows<TestType>(), w.row<TestType>(), y.rows<TestType>());
  CHECK(same_bits(y.raw(), clean.raw(), 100 * sizeof(TestType)));
  for (int j = 100; j < 200; ++j) CHECK(std::isnan(y.value(j)));
  for (int j = 200; j < 300; ++j) {  // Inf * 0 where the Inf was, finite * 0 elsewhere
    CHECK((j == 250 ? std::isnan(y.value(j)) : y.value(j) == 0.0));
  }
}

TEST_CASE("the unfused plan loses float16's range: squares overflow from 256", "[rms_norm]") {
  Array x("x", Dtype::float16, {1, 32}), y("y", Dtype::float16, {1, 32});
  fill_with<float16>(x, 256.0f);
  const Array w = filled("w", Dtype::float16, {32});
  Array x2("x2", Dtype::float16, {1, 32}), scaled("scaled", Dtype::float16, {1, 32});
  std::vector<float> mean(1), mean_eps(1), rstd(1);
  Fast fast;
  cpu::rms_norm_unfused<Fast, float16>(fast, x.rows<float16>(), w.row<float16>(), y.rows<float16>(),
                                       {x2.rows<float16>(),
                                        {mean.data(), 1},
                                        {mean_eps.data(), 1},
                                        {rstd.data(), 1},
                                        scaled.rows<float16>()});
  CHECK(std::isinf(x2.value(0)));
  CHECK(y.value(0) == 0.0);
  cpu::rms_norm(fast, x.rows<float16>(), w.row<float16>(), y.rows<float16>());
  CHECK(y.value(0) == w.value(0));  // rstd is 1/256: eps vanishes beside 65536
}
