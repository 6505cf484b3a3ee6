#include "common/exercise_views.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <cstring>
#include <type_traits>

#include "common/error.hpp"
#include "common/replay.hpp"

using namespace opbook;
using Catch::Matchers::Message;

namespace {

/// x [2, 3], w [3] and y [2, 3], whose bytes are counted.
struct Fixture {
  std::vector<float> x = {1, 2, 3, 4, 5, 6};
  std::vector<float> w = {10, 20, 30};
  std::vector<float> y = std::vector<float>(6);
  Operands operands{{{"x", x.data(), 2, 3, 2}, {"w", w.data(), 1, 3, 1}, {"y", y.data(), 2, 3, 2}},
                    {{"eps", 0.5f}}};
  Meter meter;

  Fixture() {
    std::memset(y.data(), 0xFF, 6 * sizeof(float));  // poison
    for (const FloatTensor& tensor : operands.tensors) {
      meter.declare(tensor.name, tensor.data, tensor.rows * tensor.cols * sizeof(float));
    }
  }
  /// Runs `body` on metered views; what it did to each tensor.
  template <class Body>
  std::vector<TensorCount> counted(Body body) {
    meter.begin_kernel("test");
    submission_of(body).metered(operands, meter);
    meter.end_kernel();
    return meter.kernels().front().tensors;
  }
};

const auto weigh = [](const auto& views) {
  const auto x = views.input_matrix("x");
  const auto w = views.input_vector("w");
  const auto y = views.output_matrix("y");
  for (int i = 0; i < x.rows(); ++i) {
    for (int j = 0; j < x.cols(); ++j) y(i, j) = x(i, j) * w(j) + views.scalar("eps");
  }
};
const std::vector<float> weighed = {10.5f, 40.5f, 90.5f, 40.5f, 100.5f, 180.5f};

}  // namespace

TEST_CASE("the same source gives the same values on plain and on metered views") {
  Fixture plain, metered;
  submission_of(weigh).plain(plain.operands);
  CHECK(plain.y == weighed);
  metered.counted(weigh);
  CHECK(metered.y == weighed);
}

TEST_CASE("metered views count each element's bytes once, and no FLOPs") {
  Fixture f;
  const std::vector<TensorCount> counts = f.counted(weigh);
  REQUIRE(counts.size() == 3);
  CHECK((counts[0].name == "x" && counts[0].read_bytes == 24 && counts[0].write_bytes == 0));
  CHECK((counts[1].name == "w" && counts[1].read_bytes == 12 && counts[1].write_bytes == 0));
  CHECK((counts[2].name == "y" && counts[2].read_bytes == 0 && counts[2].write_bytes == 24));
  CHECK(f.meter.kernels().front().flops == 0);
}

TEST_CASE("plain views are no more than a pointer and a shape") {
  CHECK(sizeof(InputMatrix<PlainAccess>) == sizeof(float*) + 2 * sizeof(std::int64_t));
  CHECK(sizeof(InputVector<PlainAccess>) == sizeof(float*) + sizeof(std::int64_t));
  CHECK(sizeof(Element<PlainAccess>) == sizeof(float*));
  CHECK(std::is_trivially_copyable_v<OutputMatrix<PlainAccess>>);
}

TEST_CASE("an element of an output can be assigned, changed in place, copied and read") {
  Fixture f;
  const std::vector<TensorCount> counts = f.counted([](const auto& views) {
    const auto y = views.output_matrix("y");
    y(0, 0) = 8;
    y(0, 0) += 2;
    y(0, 0) -= 4;
    y(0, 0) *= 6;
    y(0, 0) /= 4;
    y(1, 2) = y(0, 0);
    const float nine = y(1, 2);
    CHECK(nine == 9);
  });
  CHECK((f.y[0] == 9 && f.y[5] == 9));
  REQUIRE(counts.size() == 1);
  CHECK((counts[0].read_bytes == 8 && counts[0].write_bytes == 8));
}

TEST_CASE("metered views refuse an index that does not exist, with those that do") {
  const auto refuse = [](auto body, const char* text) {
    Fixture f;
    CHECK_THROWS_MATCHES(f.counted(body), CheckFailed, Message(text));
  };
  const char* const rows = "x(2, 0) does not exist: x has rows 0 to 1 and columns 0 to 2";
  refuse([](const auto& v) { return v.input_matrix("x")(2, 0); }, rows);
  const char* const columns = "x(0, 3) does not exist: x has rows 0 to 1 and columns 0 to 2";
  refuse([](const auto& v) { return v.input_matrix("x")(0, 3); }, columns);
  refuse([](const auto& v) { v.output_matrix("y")(-1, 2) = 1; },
         "y(-1, 2) does not exist: y has rows 0 to 1 and columns 0 to 2");
  refuse([](const auto& v) { return v.input_vector("w")(3); },
         "w(3) does not exist: w has elements 0 to 2");
}

TEST_CASE("metered views refuse to read an output that was not written") {
  Fixture f;
  CHECK_THROWS_MATCHES(f.counted([](const auto& v) { v.output_matrix("y")(1, 0) += 1; }),
                       CheckFailed, Message("y(1, 0) is read before anything was written to it"));
}

TEST_CASE("operands that an exercise does not have are refused by name") {
  const Fixture f;
  CHECK_THROWS_MATCHES(f.operands.tensor("z"), ArgumentError,
                       Message("tensor: got \"z\"; allowed: the exercise's own"));
  CHECK_THROWS_MATCHES(f.operands.scalar("scale"), ArgumentError,
                       Message("scalar: got \"scale\"; allowed: the exercise's own"));
}
