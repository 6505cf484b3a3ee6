#include "common/verify.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/error.hpp"

#ifdef __FAST_MATH__
#error "verify.cpp without NaN and Inf proves nothing: compile it without -ffast-math"
#endif

namespace opbook {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::size_t listed_mismatches = 5;

void require_float(Dtype dtype) {
  if (is_float(dtype)) return;
  throw ArgumentError(fmt::format(
      "dtype: got {}; allowed: float32, float16, bfloat16, float8_e4m3fn", name_of(dtype)));
}

/// Neighbouring numbers of `dtype` lie 2^this apart at |value|, as if exponents had no upper end.
int spacing_exponent(Dtype dtype, double value) {
  int exponent = 0;
  std::frexp(value, &exponent);  // |value| in [2^(exponent - 1), 2^exponent), or 0 and exponent 0
  if (value == 0) exponent = min_exponent(dtype);
  return std::max(exponent - 1, min_exponent(dtype)) - (significand_bits(dtype) - 1);
}

/// |actual - expected|. An Inf stands where the next number would be if the format went on: that is
/// where rounding to Inf begins, so a result at the edge may stray as far as any other.
double distance(Dtype dtype, double actual, double expected) {
  if (std::isinf(actual)) {
    const double largest = max_finite(dtype);
    actual = std::copysign(largest + ulp(dtype, largest), actual);
  }
  return std::abs(actual - expected);
}

std::uint64_t bits_of(const Array& array, std::int64_t i) {
  static_assert(std::endian::native == std::endian::little);
  const std::int64_t size = size_of(array.dtype());
  std::uint64_t bits = 0;
  std::memcpy(&bits, array.raw() + i * size, static_cast<std::size_t>(size));
  return bits;
}

bool is_nan(const Array& array, std::int64_t i) {
  return is_float(array.dtype()) && std::isnan(array.value(i));
}

/// Poison is a NaN that no operator here makes: NaNs are canonical, and the hardware's own have at
/// least one bit clear.
bool is_poison(const Array& array, std::int64_t i) {
  return is_nan(array, i) &&
         bits_of(array, i) == ~std::uint64_t{0} >> (64 - 8 * size_of(array.dtype()));
}

/// Place of an element on its dtype's number line, counted in representable steps from zero.
std::int64_t place(Dtype dtype, std::uint64_t bits) {
  if (dtype == Dtype::int32) return static_cast<std::int32_t>(bits);
  if (dtype == Dtype::int64) return static_cast<std::int64_t>(bits);
  const std::uint64_t sign = std::uint64_t{1} << (8 * size_of(dtype) - 1);
  const auto magnitude = static_cast<std::int64_t>(bits & ~sign);
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

/// Between two elements that differ in their bits. Any NaN is the same number, but poison is none.
double steps_between(const Array& actual, const Array& expected, std::int64_t i) {
  if (is_nan(actual, i) || is_nan(expected, i)) {
    const bool both = is_nan(actual, i) && is_nan(expected, i);
    return both && !is_poison(actual, i) ? 0 : infinity;
  }
  const std::int64_t a = place(actual.dtype(), bits_of(actual, i));
  const std::int64_t b = place(expected.dtype(), bits_of(expected, i));
  const auto [low, high] = std::minmax(a, b);
  return static_cast<double>(static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low));
}

void add_problem(Verdict& verdict, const std::string& text) {
  verdict.problem += (verdict.problem.empty() ? "" : "; ") + text;
}

void check_guards(Verdict& verdict, const Array& array) {
  if (!array.guards_intact()) {
    add_problem(verdict, "guard bands damaged: something wrote outside " + array.name());
  }
}

Verdict start_verdict(const Array& actual, double tolerance_ulp) {
  Verdict verdict;
  verdict.name = actual.name();
  verdict.elements = actual.elements();
  verdict.tolerance_ulp = tolerance_ulp;
  check_guards(verdict, actual);
  return verdict;
}

void record(Verdict& verdict, const Mismatch& element, bool ok) {
  if (verdict.worst_index < 0 || element.ulps > verdict.worst_ulp) {
    verdict.worst_ulp = element.ulps;
    verdict.worst_index = element.index;
  }
  if (ok) return;
  ++verdict.mismatches;
  if (verdict.first.size() < listed_mismatches) verdict.first.push_back(element);
}

void finish(Verdict& verdict, std::int64_t unwritten) {
  if (unwritten > 0) add_problem(verdict, fmt::format("elements never written: {}", unwritten));
  verdict.pass = verdict.problem.empty() && verdict.mismatches == 0;
}

std::string shape_text(const Array& array) {
  return fmt::format("[{}]", fmt::join(array.shape(), ", "));
}

}  // namespace

double round_to(Dtype dtype, double value) {
  require_float(dtype);
  if (std::isnan(value)) return value;
  const int spacing = spacing_exponent(dtype, value);
  // Scaling by a power of two is exact, so nearbyint is the one rounding: to nearest, ties to even.
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -spacing)), spacing);
  const double largest = max_finite(dtype);
  if (std::abs(rounded) <= largest) return rounded;
  return std::copysign(dtype == Dtype::float8_e4m3fn ? largest : infinity, value);
}

double ulp(Dtype dtype, double value) {
  require_float(dtype);
  if (std::isnan(value)) return value;
  return std::ldexp(1.0, spacing_exponent(dtype, std::min(std::abs(value), max_finite(dtype))));
}

Verdict compare(const Array& actual, const Expected& expected, double tolerance_ulp) {
  if (!(tolerance_ulp >= 0 && tolerance_ulp < infinity)) {
    throw ArgumentError(
        fmt::format("tolerance_ulp: got {}; allowed: a finite number from zero up", tolerance_ulp));
  }
  Verdict verdict = start_verdict(actual, tolerance_ulp);
  const auto count = static_cast<std::size_t>(verdict.elements);
  if (expected.value.size() != count) {
    add_problem(verdict,
                fmt::format("elements: got {}, expected {}", count, expected.value.size()));
    return verdict;
  }
  if (!expected.slack.empty() && expected.slack.size() != count) {
    add_problem(verdict,
                fmt::format("slack: {} values for {} elements", expected.slack.size(), count));
    return verdict;
  }
  const Dtype dtype = actual.dtype();
  if (!is_float(dtype)) {
    add_problem(verdict, fmt::format("dtype: got {}, expected a float dtype", name_of(dtype)));
    return verdict;
  }

  std::int64_t unwritten = 0;
  for (std::int64_t i = 0; i < verdict.elements; ++i) {
    const double want = expected.value[static_cast<std::size_t>(i)];
    const double got = actual.value(i);
    if (std::isnan(got) || std::isnan(want)) {
      const bool poison = is_poison(actual, i);
      if (poison) ++unwritten;
      const bool ok = std::isnan(got) && std::isnan(want) && !poison;
      record(verdict, {i, want, got, ok ? 0 : infinity}, ok);
      continue;
    }
    const double unit = ulp(dtype, want);
    const double error = distance(dtype, got, want);
    const bool correctly_rounded = got == round_to(dtype, want);
    // Beyond the largest finite number the correct result is a limit, however far away.
    const bool at_limit = correctly_rounded && std::abs(want) > max_finite(dtype);
    const double slack = expected.slack.empty() ? 0 : expected.slack[static_cast<std::size_t>(i)];
    const double allowed = tolerance_ulp * unit + slack;
    const bool ok = correctly_rounded || (error <= allowed && allowed < infinity);
    record(verdict, {i, want, got, at_limit ? 0 : error / unit}, ok);
  }
  finish(verdict, unwritten);
  return verdict;
}

Verdict compare_bits(const Array& actual, const Array& expected, int ulps) {
  if (ulps < 0) {
    throw ArgumentError(fmt::format("ulps: got {}; allowed: a whole number from zero up", ulps));
  }
  Verdict verdict = start_verdict(actual, ulps);
  check_guards(verdict, expected);
  if (actual.dtype() != expected.dtype()) {
    add_problem(verdict, fmt::format("dtype: got {}, expected {}", name_of(actual.dtype()),
                                     name_of(expected.dtype())));
  }
  if (actual.shape() != expected.shape()) {
    add_problem(verdict, fmt::format("shape: got {}, expected {}", shape_text(actual),
                                     shape_text(expected)));
  }
  if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape()) return verdict;

  std::int64_t unwritten = 0;
  for (std::int64_t i = 0; i < verdict.elements; ++i) {
    const bool same_bits = bits_of(actual, i) == bits_of(expected, i);
    if (!same_bits && is_poison(actual, i)) ++unwritten;
    const double steps = same_bits ? 0 : steps_between(actual, expected, i);
    const bool ok = ulps == 0 ? same_bits : steps <= ulps;
    record(verdict, {i, expected.value(i), actual.value(i), steps}, ok);
  }
  finish(verdict, unwritten);
  return verdict;
}

std::string Verdict::describe() const {
  std::string text = name.empty() ? "" : name + ": ";
  text += mismatches > 0 ? fmt::format("{} of {} elements wrong", mismatches, elements)
                         : fmt::format("{} elements", elements);
  if (worst_index >= 0) {
    text += fmt::format(", worst {:.4g} ulp at index {}, allowed {:.4g} ulp", worst_ulp,
                        worst_index, tolerance_ulp);
    // A correctly rounded result passes under any tolerance; more than that was the slack's doing.
    if (pass && worst_ulp > std::max(tolerance_ulp, 0.5)) text += " and the roundings inside";
  }
  if (!problem.empty()) text += "; " + problem;
  for (const Mismatch& wrong : first) {
    text += fmt::format("\n  index {}: expected {:.10g}, actual {:.10g}, ", wrong.index,
                        wrong.expected, wrong.actual);
    text += wrong.ulps == 0 ? "equal but for its bits" : fmt::format("{:.4g} ulp", wrong.ulps);
  }
  return text;
}

void require(const Verdict& verdict) {
  if (!verdict.pass) throw CheckFailed(verdict.describe());
}

double float32_sum_error(std::int64_t n, std::int64_t lanes) {
  if (n < 0) throw ArgumentError(fmt::format("n: got {}; allowed: a whole number from zero up", n));
  if (lanes < 1) {
    throw ArgumentError(fmt::format("lanes: got {}; allowed: a whole number above zero", lanes));
  }
  const std::int64_t in_lane = n / lanes + (n % lanes != 0);
  const auto in_tree =
      static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(lanes - 1)));
  const double ku = static_cast<double>(in_lane + in_tree) * 0x1p-24;
  return ku < 1 ? ku / (1 - ku) : infinity;
}

double rounding_tolerance(Dtype dtype, double relative_error) {
  require_float(dtype);
  const double ulps = std::ldexp(relative_error, significand_bits(dtype));
  return ulps + (ulps < 1 ? 0.5 : 1.0);
}

}  // namespace opbook
