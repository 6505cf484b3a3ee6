#pragma once

// RMSNorm of one row, for every operator that begins with one.

#include "ch13_norm_rope/rms_norm.hpp"
#include "common/fast.hpp"

namespace opbook::ch13::cpu {

inline constexpr auto square = [](auto v) { return v * v; };

/// rstd = rsqrt(mean(x^2) + eps) of a row.
template <class T, class Primitives>
auto reciprocal_rms(Primitives& row, Row<const std::type_identity_t<T>> x, float eps) {
  const float n = static_cast<float>(x.size);
  return rsqrt(row.sum_begun(x, square) / n + eps);
}

/// y = x * rstd * w, of a row or of the same slice of each; with sum_next, the next row's sum of
/// squares as well.
template <class T, bool sum_next = false, class Primitives, class Output, class Rstd>
void normalise(Primitives& row, Output y, Row<const std::type_identity_t<T>> x,
               Row<const std::type_identity_t<T>> w, Rstd rstd, const RmsNormOptions& options) {
  const auto apply = [&](auto f) {
    if constexpr (sum_next) {
      row.template map_and_sum_next<T>(y, f, square, x, w);
    } else {
      row.map(y, f, x, w);
    }
  };
  const bool once = options.rounding == Rounding::once;
  if (options.weight_offset == 0 && once) {
    apply([=](auto v, auto g) { return v * rstd * g; });
  } else if (options.weight_offset == 0) {
    apply([=](auto v, auto g) { return round_through<T>(v * rstd) * g; });
  } else if (once) {
    apply([=](auto v, auto g) { return v * rstd * (1.0f + g); });
  } else {
    apply([=](auto v, auto g) { return round_through<T>(v * rstd) * (1.0f + g); });
  }
}

/// y = x * rsqrt(mean(x^2) + eps) * w by a row's primitives, x being a row of the kernel's input:
/// reads x twice, the second time from the nearest cache, and w once. y is a row of an output,
/// which may be x, or scratch.
template <class T, class Primitives, class Output>
void rms_norm_row(Primitives& row, Output y, Row<const T> x, Row<const T> w,
                  const RmsNormOptions& options) {
  normalise<T, true>(row, y, x, w, reciprocal_rms<T>(row, x, options.eps), options);
}

}  // namespace opbook::ch13::cpu
