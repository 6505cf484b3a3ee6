// Wrong: the counter of a while loop wraps round before it reaches the end.

#include "common/exercise.hpp"

template <class In, class Weights, class Out>
void rms_norm(In x, Weights w, Out y, float eps) {
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    std::int64_t j = 0;
    while (j < x.cols()) {
      y(i, j) = x(i, j) * w(j) * eps;
      j = (j + 1) % x.cols();
    }
  }
}
