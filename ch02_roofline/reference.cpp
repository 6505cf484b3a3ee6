#include "ch02_roofline/reference.hpp"

#include <cmath>

namespace opbook::ch02::reference {

Expected by_definition(const Array& x, float a, float b, std::int64_t k, bool each_step) {
  Expected expected;
  expected.value.resize(x.elements());
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    float v = static_cast<float>(x.value(i));
    for (std::int64_t step = 0; step < k; ++step) {
      v = std::fma(v, a, b);
      if (each_step) v = static_cast<float>(round_to(x.dtype(), v));
    }
    expected.value[i] = round_to(x.dtype(), v);
  }
  return expected;
}

Expected in_double(const Array& x, float a, float b, std::int64_t k) {
  constexpr double half_ulp = 0x1p-24 + 0x1p-53, half_least_step = 0x1p-150;  // and double's own
  Expected expected;
  expected.value.resize(x.elements());
  expected.slack.resize(x.elements());
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    double v = x.value(i), error = 0;
    for (std::int64_t step = 0; step < k; ++step) {
      v = a * v + b;
      if (std::isinf(round_to(Dtype::float32, v))) v = std::copysign(INFINITY, v);
      error *= std::fabs(a);
      error += half_ulp * (std::fabs(v) + error) + half_least_step;
    }
    // Of an Inf or a NaN there is nothing to be wrong by.
    expected.value[i] = v;
    expected.slack[i] = std::isfinite(v) ? error : 0;
  }
  return expected;
}

}  // namespace opbook::ch02::reference
