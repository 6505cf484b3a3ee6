#include "ch28_design/reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

namespace opbook::ch28::reference {
namespace {

constexpr double u = 0x1p-24;

/// Partial sums in which a head's squares are added: 32 on the CPU; on a GPU as many as lanes hold
/// a head, at least 4. Fewer sums mean longer ones.
constexpr std::int64_t fewest_lanes = 4;

/// A number, and how far float32 may have moved it, absolute.
struct Inexact {
  double value;
  double error = 0;
};

/// rstd: the sum, / n, + eps, halved by the root; root and reciprocal; n itself is exact. On a
/// device / n is a product with 1 / n, which is exact as well where n is a power of two. Then x *
/// rstd and the product with w.
double normalised_error(std::int64_t n) {
  const double inverse = std::has_single_bit(static_cast<std::uint64_t>(n)) ? 0 : u;
  return 0.5 * (float32_sum_error(n, fewest_lanes) + inverse + 2 * u) + 2 * u + 2 * u;
}

/// x * rstd * w of one row, before any rounding.
std::vector<Inexact> normalised_row(const Heads& in, std::int64_t row) {
  const std::int64_t n = in.x.cols(), head = row % in.heads();
  const std::int64_t in_memory = in.x.row_count() / in.tokens;
  const std::int64_t first = (row / in.heads() * in_memory + head) * n;
  const Array& weight = head < in.q_heads ? *in.q_weight : *in.k_weight;
  double sum = 0;
  for (std::int64_t j = 0; j < n; ++j) sum += in.x.value(first + j) * in.x.value(first + j);
  const double mean = sum / static_cast<double>(n);
  const double rstd = 1.0 / std::sqrt(mean + static_cast<double>(in.eps));
  std::vector<Inexact> result;
  for (std::int64_t j = 0; j < n; ++j) {
    const double value = in.x.value(first + j) * rstd * weight.value(j);
    result.push_back({value, std::fabs(value) * normalised_error(n)});
  }
  return result;
}

/// a c - b s in float32: two products and their difference round, or fewer where they are fused.
Inexact difference_of_products(const Inexact& a, double c, const Inexact& b, double s) {
  const double ac = a.value * c, bs = b.value * s;
  return {ac - bs, a.error * std::fabs(c) + b.error * std::fabs(s) +
                       (std::fabs(ac) + std::fabs(bs) + std::fabs(ac - bs)) * u};
}

void turn(std::vector<Inexact>& row, std::int64_t token, const Tables& tables) {
  const std::int64_t h = tables.cos.cols();
  const std::int64_t first = static_cast<std::int64_t>(row.size()) - 2 * h;
  const std::int64_t at =
      tables.positions ? static_cast<std::int64_t>(tables.positions->value(token)) : token;
  for (std::int64_t p = 0; p < h; ++p) {
    const Inexact low = row[first + p], high = row[first + p + h];
    const double c = tables.cos.value(at * h + p), s = tables.sin.value(at * h + p);
    row[first + p] = difference_of_products(low, c, high, s);
    row[first + p + h] = difference_of_products(high, c, low, -s);
  }
}

/// All rows of a formula, before their rounding to `dtype`. That may lie past a power of two, where
/// half an ulp is twice as long.
Reference of_rows(std::int64_t rows, std::int64_t n, Dtype dtype,
                  const std::function<std::vector<Inexact>(std::int64_t row)>& formula) {
  Reference result;
  result.expected.value.resize(rows * n);
  result.expected.slack.resize(rows * n);
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::vector<Inexact> row = formula(i);
    for (std::int64_t j = 0; j < n; ++j) {
      const auto [value, error] = row[j];
      result.expected.value[i * n + j] = value;
      result.expected.slack[i * n + j] =
          error + 0.5 * (ulp(dtype, std::fabs(value) + error) - ulp(dtype, value));
    }
  }
  return result;
}

/// The codes of e4m3's finite numbers from 0 up: 3 bits after the leading one, which is missing
/// below 2^-6.
std::map<double, std::uint8_t> e4m3_codes() {
  std::map<double, std::uint8_t> codes;
  for (int code = 0; code < 127; ++code) {
    const int mantissa = code < 8 ? code : 8 + code % 8;
    codes[std::ldexp(mantissa, std::max(code / 8, 1) - 10)] = static_cast<std::uint8_t>(code);
  }
  return codes;
}

std::uint8_t code_of(double value) {
  static const std::map<double, std::uint8_t> codes = e4m3_codes();
  if (std::isnan(value)) return 0x7F;
  const double rounded = std::fabs(round_to(Dtype::float8_e4m3fn, value));
  return static_cast<std::uint8_t>(codes.at(rounded) | (std::signbit(value) ? 0x80 : 0));
}

}  // namespace

Reference normed(const Heads& heads) {
  return of_rows(heads.rows(), heads.x.cols(), heads.x.dtype(),
                 [&](std::int64_t row) { return normalised_row(heads, row); });
}

Reference rotated(const Array& normed, std::int64_t heads, const Tables& tables) {
  const std::int64_t n = normed.cols();
  return of_rows(normed.row_count(), n, normed.dtype(), [&](std::int64_t i) {
    std::vector<Inexact> row;
    for (std::int64_t j = 0; j < n; ++j) row.push_back({normed.value(i * n + j)});
    turn(row, i / heads, tables);
    return row;
  });
}

Reference y(const Heads& heads, const Tables& tables) {
  return of_rows(heads.rows(), heads.x.cols(), Dtype::float32, [&](std::int64_t i) {
    std::vector<Inexact> row = normalised_row(heads, i);
    turn(row, i / heads.heads(), tables);
    return row;
  });
}

Quantisation quantise(const Array& y) {
  const std::int64_t n = y.cols();
  Quantisation result{Array("scale", Dtype::float32, {y.row_count()}),
                      Array("codes", Dtype::float8_e4m3fn, y.shape())};
  float* const scales = result.scale.data<float>();
  auto* const codes = result.codes.data<float8_e4m3fn>();
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < y.row_count(); ++i) {
    double amax = round_to(Dtype::float32, 1e-4);
    for (std::int64_t j = 0; j < n; ++j) {
      const double magnitude = std::fabs(y.value(i * n + j));
      if (!(magnitude <= amax)) amax = magnitude;  // also where it is NaN
      if (std::isnan(amax)) break;
    }
    const double scale = round_to(Dtype::float32, amax / 448.0);
    scales[i] = static_cast<float>(scale);
    for (std::int64_t j = 0; j < n; ++j) {
      // Double holds enough bits for the quotient that its rounding to float32 is the right one.
      codes[i * n + j] = {code_of(round_to(Dtype::float32, y.value(i * n + j) / scale))};
    }
  }
  return result;
}

}  // namespace opbook::ch28::reference
