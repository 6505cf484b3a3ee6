// Exercise 1 of chapter 13, solved: both passes over a row while it is in cache.

#include "common/exercise.hpp"

template <class In, class Weights, class Out>
void rms_norm(In x, Weights w, Out y, float eps) {
  const std::int64_t n = x.cols();
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    // In one sum each addition waits for the one before it, and the compiler may not reorder them.
    // Sixteen sums wait for nothing, and fill the lanes of vector instructions.
    std::array<float, 16> sums{};
    std::int64_t j = 0;
    for (; j + 16 <= n; j += 16) {
      for (std::int64_t k = 0; k < 16; ++k) sums[k] += x(i, j + k) * x(i, j + k);
    }
    for (; j < n; ++j) sums[0] += x(i, j) * x(i, j);

    float sum = 0;
    for (const float part : sums) sum += part;
    const float rstd = 1 / std::sqrt(sum / static_cast<float>(n) + eps);
    for (j = 0; j < n; ++j) y(i, j) = x(i, j) * rstd * w(j);
  }
}
