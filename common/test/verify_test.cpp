// The checker, checked: what it lets pass, and that it fails where it should.

#include "common/verify.hpp"

#include <algorithm>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>

using namespace opbook;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

template <class T>
Array filled(const std::vector<double>& values) {
  Array array("y", dtype_of<T>, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) {
    array.data<T>()[i] = from_float<T>(static_cast<float>(values[i]));
  }
  return array;
}

/// Values of both signs over many magnitudes, all different, all within the range of e4m3.
std::vector<double> varied_values() {
  std::vector<double> values;
  for (int i = 0; i < 200; ++i) {
    const double magnitude = std::ldexp(1.0 + 0.004 * i, i % 14 - 6);
    values.push_back(i % 2 == 0 ? magnitude : -magnitude);
  }
  return values;
}

template <class T>
Verdict compare_one(double actual, double expected, double tolerance_ulp, double slack = 0) {
  return compare(filled<T>({actual}), {{expected}, {slack}}, tolerance_ulp);
}

Array with_bits(const std::vector<std::uint16_t>& bits) {
  Array array("bits", Dtype::float16, {static_cast<std::int64_t>(bits.size())});
  for (std::size_t i = 0; i < bits.size(); ++i) array.data<float16>()[i] = {bits[i]};
  return array;
}

}  // namespace

#define FLOAT_TYPES float, float16, bfloat16, float8_e4m3fn

TEMPLATE_TEST_CASE("a correctly rounded output passes at tolerance 0 and shows half an ulp at most",
                   "[verify]", FLOAT_TYPES) {
  std::vector<double> expected = varied_values();
  for (double& value : expected) value = static_cast<float>(value);  // one rounding, not two
  for (const double limit : {0.0, -0.0, 1e30, -1e30, infinity, -infinity})
    expected.push_back(limit);
  const Verdict verdict = compare(filled<TestType>(expected), {expected, {}}, 0);
  INFO(verdict.describe());
  CHECK(verdict.pass);
  CHECK(verdict.elements == 206);
  CHECK(verdict.worst_ulp <= 0.5);
  CHECK(verdict.mismatches == 0);
  CHECK(verdict.first.empty());
  CHECK(verdict.problem.empty());
}

TEMPLATE_TEST_CASE("an error of one ulp fails below that tolerance and is found", "[verify]",
                   FLOAT_TYPES) {
  std::vector<double> expected;
  for (const double value : varied_values())
    expected.push_back(round_to(dtype_of<TestType>, value));
  std::vector<double> wrong = expected;
  wrong[37] += ulp(dtype_of<TestType>, wrong[37]);
  const Array actual = filled<TestType>(wrong);

  const Verdict verdict = compare(actual, {expected, {}}, 0.99);
  CHECK_FALSE(verdict.pass);
  CHECK(verdict.mismatches == 1);
  CHECK(verdict.worst_index == 37);
  CHECK(verdict.worst_ulp == 1);
  REQUIRE(verdict.first.size() == 1);
  CHECK(verdict.first[0].index == 37);
  CHECK(verdict.first[0].expected == expected[37]);
  CHECK(verdict.first[0].actual == wrong[37]);
  CHECK(verdict.first[0].ulps == 1);

  CHECK(compare(actual, {expected, {}}, 1).pass);
}

TEMPLATE_TEST_CASE("an output moved by one index fails", "[verify]", FLOAT_TYPES) {
  const std::vector<double> expected = varied_values();
  std::vector<double> moved = expected;
  std::rotate(moved.begin(), moved.begin() + 1, moved.end());
  const Verdict verdict = compare(filled<TestType>(moved), {expected, {}}, 2);
  CHECK_FALSE(verdict.pass);
  CHECK(verdict.mismatches == 200);
  CHECK(verdict.first.size() == 5);  // the others are counted, not listed
}

TEMPLATE_TEST_CASE("a NaN where a number belongs fails under any tolerance", "[verify]",
                   FLOAT_TYPES) {
  for (const double expected : {1.0, 0.0, infinity, -infinity}) {
    const Verdict verdict = compare_one<TestType>(nan_value, expected, 1e6, 1e6);
    CHECK_FALSE(verdict.pass);
    CHECK(verdict.mismatches == 1);
    CHECK(verdict.worst_ulp == infinity);
  }
}

TEMPLATE_TEST_CASE("a number where a NaN belongs fails; a NaN passes", "[verify]", FLOAT_TYPES) {
  for (const double actual : {1.0, 0.0, max_finite(dtype_of<TestType>), infinity}) {
    CHECK_FALSE(compare_one<TestType>(actual, nan_value, 1e6, 1e6).pass);
  }
  CHECK(compare_one<TestType>(nan_value, nan_value, 0).pass);
  CHECK(compare_one<TestType>(-nan_value, nan_value, 0).pass);
  CHECK(compare_one<TestType>(nan_value, nan_value, 0, nan_value).pass);  // slack from a NaN row
}

TEMPLATE_TEST_CASE("an element never written fails, also where a NaN belongs", "[verify]",
                   FLOAT_TYPES) {
  Array actual = filled<TestType>({1, 2, 3, 4});
  std::fill_n(actual.raw() + 2 * sizeof(TestType), sizeof(TestType), std::byte{0xFF});
  for (const double missing : {3.0, nan_value}) {
    const Verdict verdict = compare(actual, {{1, 2, missing, 4}, {}}, 1);
    CHECK_FALSE(verdict.pass);
    CHECK(verdict.mismatches == 1);
    CHECK(verdict.first.at(0).index == 2);
    CHECK(verdict.problem == "elements never written: 1");
  }
  const Array untouched("y", dtype_of<TestType>, {3});
  CHECK(compare(untouched, {{nan_value, nan_value, nan_value}, {}}, 1).mismatches == 3);
}

TEMPLATE_TEST_CASE("Inf passes for Inf of its sign only", "[verify]", float, float16, bfloat16) {
  const double largest = max_finite(dtype_of<TestType>);
  CHECK(compare_one<TestType>(infinity, infinity, 0).pass);
  CHECK(compare_one<TestType>(-infinity, -infinity, 0).pass);
  CHECK_FALSE(compare_one<TestType>(-infinity, infinity, 100, 100).pass);
  CHECK_FALSE(compare_one<TestType>(infinity, -infinity, 100, 100).pass);
  CHECK_FALSE(compare_one<TestType>(largest, infinity, 100, 100).pass);
  CHECK_FALSE(compare_one<TestType>(largest, infinity, 100, infinity).pass);
  CHECK_FALSE(compare_one<TestType>(infinity, 1, 100, 100).pass);
  CHECK_FALSE(compare_one<TestType>(-infinity, -1, 100, 100).pass);
}

TEST_CASE("at the edge of overflow Inf and the largest number may stray as far as any other",
          "[verify]") {
  // In float16 an ulp is 32 at 65504, and Inf begins at 65520.
  const double rounds_to_inf = 65521, rounds_to_largest = 65519;
  CHECK(compare_one<float16>(infinity, rounds_to_inf, 0).pass);
  CHECK_FALSE(compare_one<float16>(65504, rounds_to_inf, 0.5).pass);  // 17/32 ulp away
  CHECK(compare_one<float16>(65504, rounds_to_inf, 0.54).pass);
  CHECK(compare_one<float16>(65504, rounds_to_inf, 0.5, 1).pass);

  CHECK(compare_one<float16>(65504, rounds_to_largest, 0).pass);
  CHECK_FALSE(compare_one<float16>(infinity, rounds_to_largest, 0.5).pass);
  CHECK(compare_one<float16>(infinity, rounds_to_largest, 0.54).pass);
  CHECK_FALSE(compare_one<float16>(-infinity, rounds_to_largest, 0.54).pass);

  CHECK_FALSE(compare_one<float16>(65504, 1e6, 1).pass);
  CHECK_FALSE(compare_one<float16>(infinity, 65000, 1).pass);
}

TEST_CASE("e4m3 saturates: 448 is the only right answer for what lies beyond", "[verify]") {
  for (const double beyond : {465.0, 500.0, 1e30, infinity}) {
    const Verdict verdict = compare_one<float8_e4m3fn>(448, beyond, 0);
    CHECK(verdict.pass);
    CHECK(verdict.worst_ulp == 0);
    CHECK(compare_one<float8_e4m3fn>(-448, -beyond, 0).pass);
    CHECK_FALSE(compare_one<float8_e4m3fn>(416, beyond, 1).pass);
    CHECK_FALSE(compare_one<float8_e4m3fn>(-448, beyond, 1).pass);
    CHECK_FALSE(compare_one<float8_e4m3fn>(nan_value, beyond, 1).pass);
  }
}

TEMPLATE_TEST_CASE("the sign of zero does not count among values", "[verify]", FLOAT_TYPES) {
  CHECK(compare_one<TestType>(-0.0, 0.0, 0).pass);
  CHECK(compare_one<TestType>(0.0, -0.0, 0).pass);
}

TEMPLATE_TEST_CASE("subnormals are measured in the smallest step", "[verify]", FLOAT_TYPES) {
  const double step = ulp(dtype_of<TestType>, 0);
  CHECK(compare_one<TestType>(3 * step, 3 * step, 0).pass);
  CHECK(compare_one<TestType>(3 * step, 2.75 * step, 0).worst_ulp == 0.25);
  CHECK_FALSE(compare_one<TestType>(0, step, 0.99).pass);  // flushed to zero
  CHECK_FALSE(compare_one<TestType>(2 * step, step, 0.99).pass);
  CHECK(compare_one<TestType>(2 * step, step, 1).pass);
}

TEST_CASE("slack widens its own element and no other", "[verify]") {
  const Array actual = filled<bfloat16>({1.125, 1.125});
  const Verdict verdict = compare(actual, {{1, 1}, {0.125, 0}}, 0.5);
  CHECK_FALSE(verdict.pass);
  CHECK(verdict.mismatches == 1);
  CHECK(verdict.first.at(0).index == 1);
  CHECK(verdict.first.at(0).ulps == 16);

  const Verdict wide = compare(actual, {{1, 1}, {0.125, 0.125}}, 0.5);
  CHECK(wide.pass);
  CHECK_THAT(wide.describe(), ContainsSubstring("and the roundings inside"));
}

TEST_CASE("slack that is no finite number excuses nothing", "[verify]") {
  for (const double slack : {infinity, nan_value, -1.0}) {
    CHECK_FALSE(compare_one<float>(2, 1, 1, slack).pass);
  }
}

TEST_CASE("the wrong number of elements is a problem, also for slack", "[verify]") {
  const Array actual = filled<float>({1, 2, 3});
  const Verdict fewer = compare(actual, {{1, 2}, {}}, 1);
  CHECK_FALSE(fewer.pass);
  CHECK(fewer.problem == "elements: got 3, expected 2");
  CHECK_FALSE(compare(actual, {{1, 2, 3, 4}, {}}, 1).pass);
  CHECK_FALSE(compare(actual, {{}, {}}, 1).pass);

  const Verdict slack = compare(actual, {{1, 2, 3}, {0, 0}}, 1);
  CHECK_FALSE(slack.pass);
  CHECK(slack.problem == "slack: 2 values for 3 elements");
}

TEST_CASE("an empty output passes against an empty reference only", "[verify]") {
  const Array empty("y", Dtype::float16, {0, 5});
  const Verdict verdict = compare(empty, {{}, {}}, 0);
  CHECK(verdict.pass);
  CHECK(verdict.worst_index == -1);
  CHECK(verdict.describe() == "y: 0 elements");
  CHECK_FALSE(compare(empty, {{1}, {}}, 0).pass);
}

TEST_CASE("integers are no output to be compared by tolerance", "[verify]") {
  Array positions("positions", Dtype::int32, {1});
  positions.data<std::int32_t>()[0] = 1;
  const Verdict verdict = compare(positions, {{1}, {}}, 1);
  CHECK_FALSE(verdict.pass);
  CHECK(verdict.problem == "dtype: got int32, expected a float dtype");
}

TEST_CASE("a write just outside an output fails whatever its values", "[verify]") {
  const std::int64_t outside = GENERATE(-1, 3);
  Array actual = filled<float16>({1, 2, 3});
  Array expected = filled<float16>({1, 2, 3});
  actual.data<float16>()[outside] = from_float<float16>(7);
  const std::string damage = "guard bands damaged: something wrote outside y";

  const Verdict by_value = compare(actual, {{1, 2, 3}, {}}, 1);
  CHECK_FALSE(by_value.pass);
  CHECK(by_value.mismatches == 0);
  CHECK(by_value.problem == damage);
  CHECK(compare_bits(actual, expected).problem == damage);
  CHECK(compare_bits(expected, actual).problem == damage);
  CHECK_FALSE(compare_bits(actual, expected).pass);
}

TEST_CASE("a tolerance that would let everything or nothing pass is refused", "[verify]") {
  const Array actual = filled<float>({1});
  for (const double tolerance : {-0.5, infinity, nan_value}) {
    CHECK_THROWS_AS(compare(actual, {{1}, {}}, tolerance), ArgumentError);
  }
  CHECK_THROWS_WITH(compare_bits(actual, actual, -1),
                    "ulps: got -1; allowed: a whole number from zero up");
}

TEST_CASE("equal bits are equal, NaN and signed zeros included", "[verify]") {
  const std::vector<std::uint16_t> bits = {0x0000, 0x8000, 0x3C00, 0x7C00, 0xFC00, 0x7FFF, 0x7E01};
  const Verdict verdict = compare_bits(with_bits(bits), with_bits(bits));
  CHECK(verdict.pass);
  CHECK(verdict.elements == 7);
  CHECK(verdict.worst_ulp == 0);
}

TEST_CASE("one differing bit fails at ulps 0", "[verify]") {
  // The last bit of a number, the sign of zero, the payload of a NaN.
  const auto [actual, expected] = GENERATE(
      table<std::uint16_t, std::uint16_t>({{0x3C01, 0x3C00}, {0x8000, 0x0000}, {0x7E01, 0x7E00}}));
  const Verdict verdict = compare_bits(with_bits({0x3C00, actual}), with_bits({0x3C00, expected}));
  CHECK_FALSE(verdict.pass);
  CHECK(verdict.mismatches == 1);
  CHECK(verdict.first.at(0).index == 1);
}

TEST_CASE("distance in bits counts representable steps across zero, binades and Inf", "[verify]") {
  struct Pair {
    std::uint16_t a, b;
    double steps;
  };
  const auto [a, b, steps] = GENERATE(values<Pair>({{0x3C00, 0x3C03, 3},
                                                    {0x3BFF, 0x3C01, 2},  // across a power of two
                                                    {0x8001, 0x0001, 2},  // across both zeros
                                                    {0x8000, 0x0000, 0},  // zeros are one number
                                                    {0x7BFF, 0x7C00, 1},  // largest number to Inf
                                                    {0xFC00, 0x7C00, 63488},
                                                    {0x7E00, 0x7FFF, 0},  // one NaN and another
                                                    {0x7FFF, 0x7C00, infinity}}));
  const Array x = with_bits({a});
  const Array y = with_bits({b});
  CHECK(compare_bits(x, y, 1).worst_ulp == steps);
  CHECK(compare_bits(y, x, 1).worst_ulp == steps);
  CHECK(compare_bits(x, y, 1).pass == (steps <= 1));
  CHECK(compare_bits(x, y, 3).pass == (steps <= 3));
}

TEST_CASE("poison does not pass for another NaN", "[verify]") {
  const Verdict verdict = compare_bits(with_bits({0xFFFF}), with_bits({0x7FFF}), 1);
  CHECK_FALSE(verdict.pass);
  CHECK(verdict.mismatches == 1);
  CHECK(verdict.problem == "elements never written: 1");
  CHECK_FALSE(compare_bits(with_bits({0xFFFF}), with_bits({0x3C00}), 1).pass);
}

TEST_CASE("of equally wrong elements the first is reported as the worst", "[verify]") {
  CHECK(compare(filled<float>({1, 3, 5, 3}), {{1, 2, 5, 2}, {}}, 0).worst_index == 1);
  CHECK(compare(filled<float>({1, 2}), {{1, 2}, {}}, 0).worst_index == 0);
}

TEST_CASE("int32 arrays are compared by value, negative ones included", "[verify]") {
  Array actual("positions", Dtype::int32, {2});
  Array expected("positions", Dtype::int32, {2});
  for (Array* array : {&actual, &expected}) array->data<std::int32_t>()[0] = 7;
  actual.data<std::int32_t>()[1] = -1;
  expected.data<std::int32_t>()[1] = 1;
  CHECK(compare_bits(actual, actual).pass);
  CHECK_FALSE(compare_bits(actual, expected).pass);
  CHECK(compare_bits(actual, expected).worst_ulp == 2);
}

TEST_CASE("int64 arrays are compared exactly, also where a double could not tell them apart",
          "[verify]") {
  Array actual("positions", Dtype::int64, {3});
  Array expected("positions", Dtype::int64, {3});
  const std::int64_t large = std::int64_t{1} << 60;
  for (Array* array : {&actual, &expected}) {
    array->data<std::int64_t>()[0] = -1;
    array->data<std::int64_t>()[1] = large;
    array->data<std::int64_t>()[2] = std::numeric_limits<std::int64_t>::min();
  }
  CHECK(compare_bits(actual, expected).pass);
  actual.data<std::int64_t>()[1] = large + 1;
  CHECK(compare_bits(actual, expected).worst_ulp == 1);
  CHECK_FALSE(compare_bits(actual, expected).pass);
  actual.data<std::int64_t>()[2] = std::numeric_limits<std::int64_t>::max();
  CHECK(compare_bits(actual, expected).worst_ulp == 0x1p64);
}

TEST_CASE("a different dtype or shape is a problem even where the bits agree", "[verify]") {
  Array actual("y", Dtype::float16, {2, 3});
  const Array transposed("y", Dtype::float16, {3, 2});
  const Verdict shape = compare_bits(actual, transposed);
  CHECK_FALSE(shape.pass);
  CHECK(shape.problem == "shape: got [2, 3], expected [3, 2]");
  CHECK_FALSE(compare_bits(actual, Array("y", Dtype::float16, {6})).pass);

  const Verdict dtype = compare_bits(actual, Array("y", Dtype::bfloat16, {2, 3}));
  CHECK_FALSE(dtype.pass);
  CHECK(dtype.problem == "dtype: got float16, expected bfloat16");
}

TEST_CASE("elements that have no counterpart are not compared", "[verify]") {
  const Array actual = filled<float>({1, 2, 3});
  CHECK(compare_bits(actual, filled<float>({5, 6})).mismatches == 0);
  CHECK(compare_bits(actual, filled<float>({})).mismatches == 0);
  CHECK(compare_bits(actual, filled<bfloat16>({5, 6, 7})).mismatches == 0);
}

TEST_CASE("a failed verdict names its first mismatches with index, values and ulps", "[verify]") {
  const Verdict verdict = compare(filled<bfloat16>({1, 2.5, 3}), {{1, 2, nan_value}, {}}, 0.5);
  CHECK(verdict.describe() ==
        "y: 2 of 3 elements wrong, worst inf ulp at index 2, allowed 0.5 ulp\n"
        "  index 1: expected 2, actual 2.5, 32 ulp\n"
        "  index 2: expected nan, actual 3, inf ulp");
  CHECK_THROWS_AS(require(verdict), CheckFailed);
  CHECK_THROWS_WITH(require(verdict), verdict.describe());

  const Verdict zeros = compare_bits(with_bits({0x8000}), with_bits({0x0000}));
  CHECK_THAT(zeros.describe(), ContainsSubstring("expected 0, actual -0, equal but for its bits"));
}

TEST_CASE("a verdict that passes says so in one line and throws nothing", "[verify]") {
  const Verdict verdict = compare(filled<bfloat16>({1, 2}), {{1, 2.001953125}, {}}, 0.5);
  CHECK(verdict.describe() == "y: 2 elements, worst 0.125 ulp at index 1, allowed 0.5 ulp");
  CHECK_NOTHROW(require(verdict));
  CHECK_THROWS_AS(require(Verdict{}), CheckFailed);  // nothing passes by default
}
