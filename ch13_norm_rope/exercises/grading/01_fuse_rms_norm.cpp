#include "ch13_norm_rope/exercises/grading/01_fuse_rms_norm.hpp"

#include <cmath>

#include "ch13_norm_rope/ledger.hpp"
#include "common/exercise.hpp"
#include "common/grader.hpp"
#include "common/random.hpp"

namespace solved {
#include "ch13_norm_rope/exercises/solutions/01_fuse_rms_norm.cpp"
}

namespace opbook::ch13::fuse_rms_norm {
namespace {

/// Rows of many scales. The first is so small that eps decides its result, the third is zero.
void fill_x(Array& x, std::uint64_t seed) {
  fill_activation(x, seed);
  const Rows<float> rows = x.rows<float>();
  for (std::int64_t j = 0; j < rows.cols; ++j) {
    rows.row(0).data[j] *= 0x1p-10f;
    if (rows.rows() > 2) rows.row(2).data[j] = 0;
  }
}

/// y in double, from the mean square and a row's weight: by the definition, or with a slip in it.
template <class Rstd, class Weight>
Check check_y(const Tensors& tensors, Rstd rstd, Weight weight) {
  const Array& x = tensors.at("x");
  const std::int64_t n = x.cols();
  Check check{.tensor = "y", .expected = {}};
  for (std::int64_t i = 0; i < x.row_count(); ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < n; ++j) sum += x.value(i * n + j) * x.value(i * n + j);
    const double r = rstd(sum / static_cast<double>(n));
    for (std::int64_t j = 0; j < n; ++j) {
      check.expected.value.push_back(x.value(i * n + j) * r * weight(tensors.at("w").value(j)));
    }
  }
  // How the n squares are added is the author's choice: one sum is the worst. The root halves its
  // error, n as a float, the division (or a product with 1 / n) and + eps; then the root, its
  // reciprocal and two products round.
  constexpr double u = 0x1p-24;
  const double error = 0.5 * (float32_sum_error(n, 1) + 4 * u) + 4 * u;
  check.tolerance_ulp = rounding_tolerance(Dtype::float32, error);
  return check;
}

ExerciseCase at_shape(std::int64_t m, std::int64_t n, float eps) {
  const auto as_it_is = [](double w) { return w; };
  ExerciseCase at;
  at.tensors = {{"x", Role::input, Dtype::float32, {m, n}, fill_x},
                {"w", Role::input, Dtype::float32, {n}, fill_weight},
                {"y", Role::output, Dtype::float32, {m, n}, nullptr}};
  at.scalars = {{"eps", eps}};
  at.ledger = rms_norm_case({.m = m, .n = n}, Convention::exact).fused.kernels.front();
  at.expect = [=](const Tensors& tensors) {
    const auto rstd = [=](double mean) { return 1 / std::sqrt(mean + eps); };
    return std::vector<Check>{check_y(tensors, rstd, as_it_is)};
  };
  at.slips = [=](const Tensors& tensors) {
    const auto slip = [&](const char* text, auto rstd, auto weight) {
      return Slip{text, check_y(tensors, rstd, weight)};
    };
    const double count = static_cast<double>(n);
    return std::vector<Slip>{
        slip(
            "eps is left out: it is added to the mean square, and decides rows of small numbers",
            [](double mean) { return 1 / std::sqrt(mean); }, as_it_is),
        slip(
            "eps is added after the root, not before it",
            [=](double mean) { return 1 / (std::sqrt(mean) + eps); }, as_it_is),
        slip(
            "the sum of squares is not divided by n: it is their mean that is wanted",
            [=](double mean) { return 1 / std::sqrt(mean * count + eps); }, as_it_is),
        slip(
            "the root is left out", [=](double mean) { return 1 / (mean + eps); }, as_it_is),
        slip(
            "the weight w is left out", [=](double mean) { return 1 / std::sqrt(mean + eps); },
            [](double) { return 1.0; }),
    };
  };
  return at;
}

}  // namespace

const Exercise& exercise() {
  static const Exercise exercise{
      .checked = {at_shape(2, 4, 1e-5f), at_shape(1, 1, 1e-6f), at_shape(3, 7, 1e-6f),
                  at_shape(5, 99, 1e-5f), at_shape(4, 1000, 1e-6f), at_shape(33, 1025, 1e-6f)},
      .counted = at_shape(200, 1000, 1e-6f),
      .timed = at_shape(1024, 4096, 1e-6f),
      .when_slow =
          "Inner loops should run along a row, whose elements are neighbours. And a sum in "
          "one\nvariable waits for each addition before the next: keep a dozen sums or "
          "more, or allow the\ncompiler to, by\n\n"
          "    #pragma omp simd reduction(+ : sum)\n\nabove the loop.",
  };
  return exercise;
}

const Submission& solution() {
  static const Submission solution =
      submission([](auto... arguments) { solved::rms_norm(arguments...); });
  return solution;
}

int grade_and_print(const Submission& submission) {
  return grade_program(exercise(), submission, solution());
}

}  // namespace opbook::ch13::fuse_rms_norm
