#include "common/rope_table.hpp"

#include <cmath>
#include <cstdint>
#include <string>

#include "common/error.hpp"
#include "common/verify.hpp"

namespace opbook {

void fill_rope_table(Array& table, Wave wave, double theta) {
  if (table.shape().size() != 2) {
    throw ArgumentError("table: got rank " + std::to_string(table.shape().size()) +
                        "; allowed: [positions, rope_dim / 2]");
  }
  if (!(theta > 0 && std::isfinite(theta))) {
    throw ArgumentError("theta: got " + std::to_string(theta) +
                        "; allowed: a finite number above zero");
  }
  const std::int64_t pairs = table.cols();
  visit_input_dtype(table.dtype(), [&]<class T>() {
    T* const out = table.data<T>();
#pragma omp parallel for schedule(static)
    for (std::int64_t p = 0; p < table.row_count(); ++p) {
      for (std::int64_t i = 0; i < pairs; ++i) {
        const double exponent = -static_cast<double>(i) / static_cast<double>(pairs);
        const double angle = static_cast<double>(p) * std::pow(theta, exponent);
        const double exact = wave == Wave::cosine ? std::cos(angle) : std::sin(angle);
        // round_to() rounds once, from double; what is left is exact.
        out[p * pairs + i] = from_float<T>(static_cast<float>(round_to(dtype_of<T>, exact)));
      }
    }
  });
}

}  // namespace opbook
