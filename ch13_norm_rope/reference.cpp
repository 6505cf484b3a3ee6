#include "ch13_norm_rope/reference.hpp"

#include <cmath>
#include <cstdint>
#include <functional>

namespace opbook::ch13::reference {
namespace {

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

/// The error of one float32 fma before a result is rounded to `dtype`. In float32 there is none,
/// but the reference itself rounds: a product and a sum of float32 need not fit double.
double before_rounding_fma(Dtype dtype) {
  return dtype == Dtype::float32 ? 0x1p-53 : u;
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
  result.relative_error = inner_rounding ? weight_error : normalised_error + weight_error;
  result.tolerance_ulp = rounding_tolerance(dtype, result.relative_error);
  return result;
}

Reference scale_add(const Array& x, double a, const Array& b) {
  return by_element(x, x.dtype(), before_rounding_fma(x.dtype()),
                    [&](std::int64_t i, std::int64_t j) {
                      const std::int64_t at = i * x.cols() + j;
                      return x.value(at) * a + b.value(at);
                    });
}

Reference layer_norm(const Array& x, const Array& g, const Array& b, double eps) {
  const std::int64_t n = x.cols();
  const double sum_error = float32_sum_error(n, lanes);
  Reference result;
  result.expected.value.resize(x.elements());
  result.expected.slack.resize(x.elements());
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < x.row_count(); ++i) {
    double sum = 0, magnitudes = 0, squares = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      sum += x.value(i * n + j);
      magnitudes += std::fabs(x.value(i * n + j));
    }
    const double mean = sum / static_cast<double>(n);
    for (std::int64_t j = 0; j < n; ++j) {
      const double difference = x.value(i * n + j) - mean;
      squares += difference * difference;
    }
    const double rstd = 1.0 / std::sqrt(squares / static_cast<double>(n) + eps);
    // Terms of both signs: the sum errs by g of their magnitudes. / n u, n itself u.
    const double mean_error = (sum_error + 2 * u) * magnitudes / static_cast<double>(n);
    // The mean of squares about a wrong mean is too large by the square of what it is wrong by.
    // Then: each difference u and so its square 2u, their sum g, / n u, n itself u, + eps u, all
    // halved by the root; root u, reciprocal u.
    const double shift = mean_error * rstd;
    const double rstd_error = 0.5 * (shift * shift + sum_error + 5 * u) + 2 * u;
    // x - mean u, times rstd u.
    const double error = rstd_error + 2 * u;
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t at = i * n + j;
      const double normalised = (x.value(at) - mean) * rstd;
      result.expected.value[at] = normalised * g.value(j) + b.value(j);
      // The last rounding is that of a value as much larger: 2^-8 of it at most.
      result.expected.slack[at] = std::fabs(g.value(j)) * (1 + 0x1p-8) *
                                  (std::fabs(normalised) * error + shift * (1 + error));
    }
  }
  result.tolerance_ulp = rounding_tolerance(x.dtype(), before_rounding_fma(x.dtype()));
  return result;
}

Reference square(const Array& x) {
  // Exact in float32 for 16-bit inputs: 22 or 16 significant bits.
  return by_element(x, x.dtype(), 0, [&](std::int64_t i, std::int64_t j) {
    const double v = x.value(i * x.cols() + j);
    return v * v;
  });
}

Reference row_sum(const Array& x) {
  Reference result;
  const double error = float32_sum_error(x.cols(), lanes);
  for (std::int64_t i = 0; i < x.row_count(); ++i) {
    double sum = 0, magnitudes = 0;
    for (std::int64_t j = 0; j < x.cols(); ++j) {
      sum += x.value(i * x.cols() + j);
      magnitudes += std::fabs(x.value(i * x.cols() + j));
    }
    result.expected.value.push_back(sum);
    // Terms may have both signs: the error is relative to their magnitudes, not to the sum.
    result.expected.slack.push_back(error * magnitudes);
  }
  return result;
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

Reference mean_of_sum(const Array& sum_x, std::int64_t n) {
  // n as a float u; the division's rounding is the final one.
  return by_element(sum_x, Dtype::float32, u, [&](std::int64_t i, std::int64_t j) {
    return sum_x.value(i * sum_x.cols() + j) / static_cast<double>(n);
  });
}

Reference rstd_of_sums(const Array& sum_x, const Array& sum_x2, std::int64_t n, double eps) {
  const auto rounded = [](double value) { return round_to(Dtype::float32, value); };
  Reference result;
  for (std::int64_t i = 0; i < sum_x.elements(); ++i) {
    const double mean = sum_x.value(i) / static_cast<double>(n);
    const double mean_square = sum_x2.value(i) / static_cast<double>(n);
    const double variance = mean_square - mean * mean;
    const double sum = variance + eps;
    // Cancellation: what E[x^2] and mean^2 err by is left whole in their difference, however small
    // that is. / n u and n itself u, so 2u, and 5u for the rounded square; difference u, + eps u.
    const double sum_error =
        u * (2 * mean_square + 5 * mean * mean + std::fabs(variance) + std::fabs(sum));
    if (sum > sum_error) {
      const double rstd = 1.0 / std::sqrt(sum);
      result.expected.value.push_back(rstd);
      result.expected.slack.push_back((1 + 2 * u) / std::sqrt(sum - sum_error) - rstd);
    } else {
      // Not even the sign is certain, and anything from NaN to Inf may be right. The definition is
      // then its float32 steps, each of which double gets right to the bit.
      const double m = rounded(sum_x.value(i) / rounded(static_cast<double>(n)));
      const double s = rounded(sum_x2.value(i) / rounded(static_cast<double>(n)));
      const double v = rounded(rounded(s - rounded(m * m)) + eps);
      result.expected.value.push_back(1.0 / rounded(std::sqrt(v)));
      result.expected.slack.push_back(0);
    }
  }
  // The root's rounding; the division's is the final one.
  result.tolerance_ulp = rounding_tolerance(Dtype::float32, u);
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

Reference multiply_scalar(const Array& x, double c) {
  return by_element(x, x.dtype(), before_rounding(x.dtype()),
                    [&](std::int64_t i, std::int64_t j) { return x.value(i * x.cols() + j) * c; });
}

Reference add(const Array& x, const Array& z) {
  return by_element(x, x.dtype(), before_rounding(x.dtype()), [&](std::int64_t i, std::int64_t j) {
    return x.value(i * x.cols() + j) + z.value(i * x.cols() + j);
  });
}

Reference subtract_rows(const Array& x, const Array& subtrahend) {
  return by_element(x, x.dtype(), before_rounding(x.dtype()), [&](std::int64_t i, std::int64_t j) {
    return x.value(i * x.cols() + j) - subtrahend.value(i);
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

Reference multiply_add_columns(const Array& x, const Array& g, const Array& b) {
  return by_element(x, x.dtype(), before_rounding_fma(x.dtype()),
                    [&](std::int64_t i, std::int64_t j) {
                      return x.value(i * x.cols() + j) * g.value(j) + b.value(j);
                    });
}

}  // namespace opbook::ch13::reference
