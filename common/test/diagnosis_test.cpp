#include "common/diagnosis.hpp"

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <limits>

using namespace opbook;

namespace {

/// What diagnose() says of a [4, 10] matrix y that should hold 0, 1, 2, ... and was changed. One
/// known slip makes every element the negative of what it should be.
std::string diagnosis(const std::function<void(float* y)>& change) {
  Array y("y", Dtype::float32, {4, 10});
  Check check{"y", {}, 0.5, nullptr};
  Slip negative{"the sign is lost", check};
  for (int i = 0; i < 40; ++i) {
    y.data<float>()[i] = static_cast<float>(i);
    check.expected.value.push_back(i);
    negative.check.expected.value.push_back(-i);
  }
  change(y.data<float>());
  return diagnose(y, check, {negative});
}

const float unwritten = [] {
  const Array poisoned("", Dtype::float32, {1});
  return *poisoned.data<float>();
}();

}  // namespace

TEST_CASE("elements never written are named by where they lie") {
  CHECK(diagnosis([](float* y) { y[25] = unwritten; }) == "y: never written: 1 of 40 elements");
  CHECK(diagnosis([](float* y) { std::fill(y + 20, y + 40, unwritten); }) ==
        "y: never written: rows 2 to 3");
  CHECK(diagnosis([](float* y) {
          for (int i = 0; i < 4; ++i) y[10 * i + 8] = y[10 * i + 9] = unwritten;
        }) ==
        "y: never written: columns 8 to 9 of every row.\nA loop that takes several columns at a "
        "time leaves a rest where they do not divide 10: it needs a loop of its own.");
}

TEST_CASE("a slip that explains every element is named before anything else that is wrong") {
  CHECK(diagnosis([](float* y) {
          for (int i = 0; i < 40; ++i) y[i] = static_cast<float>(-i);
        }) == "y: the sign is lost.\ny(0, 1): got -1, expected 1");
}

TEST_CASE("a slip that explains a part is no explanation") {
  CHECK(diagnosis([](float* y) {
          for (int i = 0; i < 20; ++i) y[i] = static_cast<float>(-i);
        }) == "y: wrong in 19 of 40 elements.\ny(0, 1): got -1, expected 1");
}

TEST_CASE("NaN is told apart from other wrong values and never passes for right") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float sign : {1.0f, -1.0f}) {
    CHECK(diagnosis([=](float* y) { std::fill(y + 10, y + 20, sign * nan); }) ==
          "y: NaN in row 1. A NaN comes of the root of a negative number, of 0 / 0 or of Inf - "
          "Inf.\ny(1, 0): got NaN, expected 10");
  }
}

TEST_CASE("wrong elements are named by where they lie") {
  CHECK(diagnosis([](float* y) { y[33] = 5; }) ==
        "y: wrong in 1 of 40 elements.\ny(3, 3): got 5, expected 33");
  CHECK(diagnosis([](float* y) { std::fill(y + 20, y + 30, 0.5f); }) ==
        "y: wrong in row 2.\ny(2, 0): got 0.5, expected 20");
  CHECK(diagnosis([](float* y) {
          std::fill(y, y + 10, 0.5f);
          std::fill(y + 30, y + 40, 0.5f);
        }) == "y: wrong in 2 of 4 rows, the first of them row 0.\ny(0, 0): got 0.5, expected 0");
  CHECK(diagnosis([](float* y) {
          for (int i = 0; i < 4; ++i) y[10 * i + 9] += 0.5f;
        }) == "y: wrong in column 9 of every row.\ny(0, 9): got 9.5, expected 9");
  CHECK(diagnosis([](float* y) { std::fill(y, y + 40, 0.5f); }) ==
        "y: wrong in every element.\ny(0, 0): got 0.5, expected 0");
}

TEST_CASE("an element of a vector has one index") {
  Array v("v", Dtype::float32, {3});
  std::fill(v.data<float>(), v.data<float>() + 3, 1.0f);
  CHECK(diagnose(v, {"v", {{1, 2, 1}, {}}, 0.5, nullptr}, {}) ==
        "v: wrong in 1 of 3 elements.\nv(1): got 1, expected 2");
}
