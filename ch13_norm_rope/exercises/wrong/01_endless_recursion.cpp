// Wrong: a sum by halves that never gets to a single element.

#include "common/exercise.hpp"

template <class In, class Weights, class Out>
void rms_norm(In x, Weights w, Out y, float eps) {
  const auto sum = [&](auto self, std::int64_t i, std::int64_t begin, std::int64_t end) -> float {
    if (begin >= end) return 0;
    const std::int64_t middle = (begin + end) / 2;
    return self(self, i, begin, middle) + self(self, i, middle, end);
  };
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    const float rstd = 1 / std::sqrt(sum(sum, i, 0, x.cols()) + eps);
    for (std::int64_t j = 0; j < x.cols(); ++j) y(i, j) = x(i, j) * rstd * w(j);
  }
}
