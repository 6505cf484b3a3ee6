#include "ch13_norm_rope/reference.hpp"

#include <cmath>
#include <cstdint>
#include <functional>

namespace opbook::ch13::reference {
namespace {

constexpr double u = 0x1p-24;
constexpr int lanes = 32;

/// Values from a formula over (row, column) of x, which is correct to `relative_error` before its
/// one rounding to `dtype`.
Reference by_element(const Array& x, Dtype dtype, double relative_error,
                     const std::function<double(std::int64_t i, std::int64_t j)>& formula) {
  Reference result;
  const std::int64_t n = x.cols();
  result.expected.value.resize(x.elements());
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < x.row_count(); ++i) {
    for (std::int64_t j = 0; j < n; ++j) result.expected.value[i * n + j] = formula(i, j);
  }
  result.tolerance_ulp = rounding_tolerance(dtype, relative_error);
  return result;
}

/// The error of one float32 operation before a result is rounded to `dtype`: none where float32 is
/// the dtype, since that rounding is the final one.
double before_rounding(Dtype dtype) {
  return dtype == Dtype::float32 ? 0 : u;
}

double mean_of_squares(const Array& x, std::int64_t row) {
  double sum = 0;
  for (std::int64_t j = 0; j < x.cols(); ++j) {
    const double v = x.value(row * x.cols() + j);
    sum += v * v;
  }
  return sum / static_cast<double>(x.cols());
}

}  // namespace

Reference rms_norm(const Array& x, const Array& w, const RmsNormOptions& options) {
  const std::int64_t n = x.cols();
  const Dtype dtype = x.dtype();
  // rstd: (sum g, / n u, + eps u) halved by the root, root u, reciprocal u; n itself, as a float,
  // may be off by u. Then x * rstd u.
  const double normalised_error = 0.5 * (float32_sum_error(n, lanes) + 3 * u) + 3 * u;
  const double weight_error = u + (options.weight_offset == 1 ? u : 0);

  Reference result;
  result.expected.value.resize(x.elements());
  // In float32 the inner rounding is that of the product, which is there anyway.
  const bool inner_rounding =
      options.rounding == Rounding::before_weight && dtype != Dtype::float32;
  if (inner_rounding) result.expected.slack.resize(x.elements());
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < x.row_count(); ++i) {
    const double rstd = 1.0 / std::sqrt(mean_of_squares(x, i) + static_cast<double>(options.eps));
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t at = i * n + j;
      const double weight = options.weight_offset + w.value(j);
      double normalised = x.value(at) * rstd;
      if (inner_rounding) {
        // Where float32's error may carry the value across a tie, either neighbour is right.
        const double low = round_to(dtype, normalised * (1 - normalised_error));
        const double high = round_to(dtype, normalised * (1 + normalised_error));
        normalised = round_to(dtype, normalised);
        result.expected.slack[at] = low == high ? 0 : std::fabs((high - low) * weight);
      }
      result.expected.value[at] = normalised * weight;
    }
  }
  result.tolerance_ulp =
      rounding_tolerance(dtype, inner_rounding ? weight_error : normalised_error + weight_error);
  return result;
}

Reference square(const Array& x) {
  // Exact in float32 for 16-bit inputs: 22 or 16 significant bits.
  return by_element(x, x.dtype(), 0, [&](std::int64_t i, std::int64_t j) {
    const double v = x.value(i * x.cols() + j);
    return v * v;
  });
}

Reference row_mean(const Array& x) {
  Reference result;
  for (std::int64_t i = 0; i < x.row_count(); ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < x.cols(); ++j) sum += x.value(i * x.cols() + j);
    result.expected.value.push_back(sum / static_cast<double>(x.cols()));
  }
  // The sum g, n as a float u; the division's rounding is the final one.
  result.tolerance_ulp = rounding_tolerance(Dtype::float32, float32_sum_error(x.cols(), lanes) + u);
  return result;
}

Reference add_scalar(const Array& x, double c) {
  return by_element(x, Dtype::float32, 0,
                    [&](std::int64_t i, std::int64_t j) { return x.value(i * x.cols() + j) + c; });
}

Reference reciprocal_sqrt(const Array& x) {
  // The root's rounding; the division's is the final one.
  return by_element(x, Dtype::float32, u, [&](std::int64_t i, std::int64_t j) {
    return 1.0 / std::sqrt(x.value(i * x.cols() + j));
  });
}

Reference scale_rows(const Array& x, const Array& factor) {
  return by_element(x, x.dtype(), before_rounding(x.dtype()), [&](std::int64_t i, std::int64_t j) {
    return x.value(i * x.cols() + j) * factor.value(i);
  });
}

Reference multiply_columns(const Array& x, const Array& w, int offset) {
  const double error = before_rounding(x.dtype()) + (offset == 1 ? u : 0);
  return by_element(x, x.dtype(), error, [&](std::int64_t i, std::int64_t j) {
    return x.value(i * x.cols() + j) * (offset + w.value(j));
  });
}

}  // namespace opbook::ch13::reference
