#include "ch13_norm_rope/reference_rope.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace opbook::ch13::reference {
namespace {

/// What equals a number of the output's dtype: no other one lies this near, in ulps.
constexpr double exactly = 0.25;

/// A number, and how far the roundings and the float32 arithmetic before it may have moved it.
struct Inexact {
  double value;
  double error = 0;
};

/// Where each row of x finds its angles.
std::int64_t table_row(const Array& x, std::int64_t row, const Array& table,
                       const Array* positions) {
  const std::int64_t tokens = positions ? positions->elements() : table.row_count();
  const std::int64_t token = row / (x.row_count() / tokens);
  return positions ? static_cast<std::int64_t>(positions->value(token)) : token;
}

Reference empty_reference(std::int64_t elements) {
  Reference result;
  result.expected.value.resize(elements);
  result.expected.slack.resize(elements);
  return result;
}

/// An element before its last rounding. That is half an ulp of where the value ends up, which may
/// lie past a power of two.
void set(Reference& result, Dtype dtype, std::int64_t at, const Inexact& v) {
  const double end = std::fabs(v.value) + v.error;
  result.expected.value[at] = v.value;
  result.expected.slack[at] = v.error + 0.5 * (ulp(dtype, end) - ulp(dtype, v.value));
}

/// a * c - b * s. Products are exact in float32 where the factors have 16 bits, so the difference
/// makes the only error before the last rounding; in float32 its rounding is the last one.
Inexact difference_of_products(Dtype dtype, const Inexact& a, double c, const Inexact& b,
                               double s) {
  const bool exact_products = dtype != Dtype::float32;
  const double ac = a.value * c, bs = b.value * s;
  const double rounding =
      exact_products ? std::fabs(ac - bs) * u : (std::fabs(ac) + std::fabs(bs)) * u;
  return {ac - bs, a.error * std::fabs(c) + b.error * std::fabs(s) + rounding};
}

/// Turns the last columns of row i of `result`, which `before(j)` gives as they were.
template <class Before>
void turn_row(Reference& result, Dtype dtype, std::int64_t i, std::int64_t n, const Tables& tables,
              std::int64_t table_row, Before before) {
  const std::int64_t h = tables.cos.cols();
  for (std::int64_t p = 0; p < h; ++p) {
    const std::int64_t low = n - 2 * h + p, high = low + h;
    const Inexact lo = before(low), hi = before(high);
    const double c = tables.cos.value(table_row * h + p), s = tables.sin.value(table_row * h + p);
    set(result, dtype, i * n + low, difference_of_products(dtype, lo, c, hi, s));
    set(result, dtype, i * n + high, difference_of_products(dtype, hi, c, lo, -s));
  }
}

/// The 127 finite magnitudes of e4m3, by code: 3 bits after the leading one, which is missing below
/// 2^-6.
std::array<double, 127> e4m3_magnitudes() {
  std::array<double, 127> magnitudes{};
  for (int code = 0; code < 127; ++code) {
    magnitudes[code] = code < 8 ? std::ldexp(code, -9) : std::ldexp(8 + code % 8, code / 8 - 1 - 9);
  }
  return magnitudes;
}

/// The nearest code, of two as near the even one.
std::uint8_t e4m3_code(double value) {
  static const std::array<double, 127> magnitudes = e4m3_magnitudes();
  if (std::isnan(value)) return 0x7F;
  const double magnitude = std::fabs(value);
  const auto above = std::lower_bound(magnitudes.begin(), magnitudes.end(), magnitude);
  auto code = above - magnitudes.begin();
  if (above == magnitudes.end()) {
    code = 126;  // saturates
  } else if (code > 0) {
    const double up = *above - magnitude, down = magnitude - *(above - 1);
    if (down < up || (down == up && code % 2 == 1)) --code;
  }
  return static_cast<std::uint8_t>(code | (std::signbit(value) ? 0x80 : 0));
}

}  // namespace

Reference rope(const Array& x, const Tables& tables) {
  const std::int64_t n = x.cols();
  Reference result = empty_reference(x.elements());
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < x.row_count(); ++i) {
    const auto before = [&](std::int64_t j) { return Inexact{x.value(i * n + j)}; };
    for (std::int64_t j = 0; j < n; ++j) set(result, x.dtype(), i * n + j, before(j));
    turn_row(result, x.dtype(), i, n, tables, table_row(x, i, tables.cos, tables.positions),
             before);
  }
  return result;
}

Reference rms_norm_rope(const Array& x, const Array& w, const Tables& tables,
                        const RmsNormOptions& options) {
  const std::int64_t n = x.cols();
  const Dtype dtype = x.dtype();
  const Reference normed = rms_norm(x, w, options);
  Reference result = empty_reference(x.elements());
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < x.row_count(); ++i) {
    const auto unrounded = [&](std::int64_t j) {
      const double value = normed.expected.value[i * n + j];
      const std::vector<double>& slack = normed.expected.slack;
      return Inexact{
          value, std::fabs(value) * normed.relative_error + (slack.empty() ? 0 : slack[i * n + j])};
    };
    // Where the error may carry the value across a tie, either neighbour is right.
    const auto rounded = [&](std::int64_t j) {
      const Inexact v = unrounded(j);
      const double value = round_to(dtype, v.value);
      const double low = round_to(dtype, v.value - v.error);
      const double high = round_to(dtype, v.value + v.error);
      return Inexact{value, std::max(high - value, value - low)};
    };
    for (std::int64_t j = 0; j < n; ++j) set(result, dtype, i * n + j, unrounded(j));
    turn_row(result, dtype, i, n, tables, table_row(x, i, tables.cos, tables.positions), rounded);
  }
  return result;
}

Reference swap_halves(const Array& x) {
  const std::int64_t n = x.cols(), h = n / 2;
  Reference result;
  for (std::int64_t at = 0; at < x.elements(); ++at) {
    result.expected.value.push_back(at % n < h ? -x.value(at + h) : x.value(at - h));
  }
  result.tolerance_ulp = exactly;
  return result;
}

Reference multiply_table(const Array& x, const Array& table, const Array* positions) {
  const std::int64_t n = x.cols(), h = n / 2;
  Reference result;
  for (std::int64_t i = 0; i < x.row_count(); ++i) {
    const std::int64_t row = table_row(x, i, table, positions);
    for (std::int64_t j = 0; j < n; ++j) {
      result.expected.value.push_back(x.value(i * n + j) * table.value(row * h + j % h));
    }
  }
  return result;  // exact in float32, or rounded once by it
}

Quantisation quantise(const Array& y, std::int64_t group_size) {
  const std::int64_t size = group_size > 0 ? group_size : y.cols();
  Quantisation result{{}, Array("q", Dtype::float8_e4m3fn, y.shape())};
  auto* const codes = result.q.data<float8_e4m3fn>();
  for (std::int64_t begin = 0; begin < y.elements(); begin += size) {
    double amax = round_to(Dtype::float32, 1e-4);
    for (std::int64_t at = begin; at < begin + size; ++at) {
      const double magnitude = std::fabs(y.value(at));
      if (!(magnitude <= amax)) amax = magnitude;  // also where it is NaN
      if (std::isnan(amax)) break;
    }
    const double scale = round_to(Dtype::float32, amax / 448.0);
    result.scale.expected.value.push_back(scale);
    for (std::int64_t at = begin; at < begin + size; ++at) {
      // Double holds enough bits for the quotient that its rounding to float32 is the right one.
      codes[at] = {e4m3_code(round_to(Dtype::float32, y.value(at) / scale))};
    }
  }
  result.scale.tolerance_ulp = exactly;
  return result;
}

}  // namespace opbook::ch13::reference
