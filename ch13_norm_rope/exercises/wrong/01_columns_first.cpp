// Right, but not done: the inner loops run down the columns, twice over all of x.

#include "common/exercise.hpp"

template <class In, class Weights, class Out>
void rms_norm(In x, Weights w, Out y, float eps) {
  std::vector<float> rstd(x.rows());
  for (std::int64_t j = 0; j < x.cols(); ++j) {
    for (std::int64_t i = 0; i < x.rows(); ++i) rstd[i] += x(i, j) * x(i, j);
  }
  for (float& r : rstd) r = 1 / std::sqrt(r / static_cast<float>(x.cols()) + eps);
  for (std::int64_t j = 0; j < x.cols(); ++j) {
    for (std::int64_t i = 0; i < x.rows(); ++i) y(i, j) = x(i, j) * rstd[i] * w(j);
  }
}
