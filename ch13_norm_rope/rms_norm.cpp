#include "ch13_norm_rope/rms_norm.hpp"

#include "ch13_norm_rope/rms_norm_row.hpp"
#include "common/checks.hpp"
#include "common/fast.hpp"
#include "common/replay.hpp"

namespace opbook::ch13::cpu {
template <class Backend, class T>
void rms_norm_unfused(Backend& backend, Rows<const std::type_identity_t<T>> x,
                      Row<const std::type_identity_t<T>> w, Rows<T> y,
                      const RmsNormIntermediates<T>& intermediates, const RmsNormOptions& options) {
  check_rms_norm<T>(x, w, y, options);
  const Rows<T> x2 = intermediates.x2, scaled = intermediates.scaled;
  const Row<float> mean = intermediates.mean, mean_eps = intermediates.mean_eps;
  const Row<float> rstd = intermediates.rstd;
  const std::int64_t m = x.rows();
  check_intermediates(intermediates, m, x.cols);
  if (m == 0 || x.cols == 0) return;
  const float n = static_cast<float>(x.cols);
  const float eps = options.eps;

  backend.kernel("x2", x, x2, [=](auto& row, std::int64_t i) {
    row.map(x2.row(i), [](auto v) { return v * v; }, x.row(i));
  });
  const Rows<const T> squares = x2;
  backend.kernel("mean", squares, one_a_row(mean), [=](auto& row, std::int64_t i) {
    row.store(mean, i, row.sum(squares.row(i), [](auto v) { return v; }) / n);
  });
  const Row<const float> means = mean;
  backend.kernel("mean_eps", one_row(means), one_row(mean_eps), [=](auto& row, std::int64_t) {
    row.map(mean_eps, [=](auto v) { return v + eps; }, means);
  });
  const Row<const float> means_eps = mean_eps;
  backend.kernel("rstd", one_row(means_eps), one_row(rstd), [=](auto& row, std::int64_t) {
    row.map(rstd, [](auto v) { return rsqrt(v); }, means_eps);
  });
  backend.kernel("scaled", x, scaled, [=](auto& row, std::int64_t i) {
    const auto r = row.load(rstd, i);
    row.map(scaled.row(i), [=](auto v) { return v * r; }, x.row(i));
  });
  const Rows<const T> normalised = scaled;
  backend.kernel("y", normalised, y, [=](auto& row, std::int64_t i) {
    if (options.weight_offset == 0) {
      row.map(y.row(i), [](auto v, auto g) { return v * g; }, normalised.row(i), w);
    } else {
      row.map(y.row(i), [](auto v, auto g) { return v * (1.0f + g); }, normalised.row(i), w);
    }
  });
}

template <class Backend, class T>
void rms_norm(Backend& backend, Rows<const std::type_identity_t<T>> x,
              Row<const std::type_identity_t<T>> w, Rows<T> y, const RmsNormOptions& options) {
  check_rms_norm<T>(x, w, y, options);
  if (x.rows() == 0 || x.cols == 0) return;
  backend.kernel("fused", x, y, [=](auto& row, std::int64_t i) {
    rms_norm_row(row, y.row(i), x.row(i), w, options);
  });
}

#define OPBOOK_INSTANTIATE(Backend, T)                                                       \
  template void rms_norm<Backend, T>(Backend&, Rows<const T>, Row<const T>, Rows<T>,         \
                                     const RmsNormOptions&);                                 \
  template void rms_norm_unfused<Backend, T>(Backend&, Rows<const T>, Row<const T>, Rows<T>, \
                                             const RmsNormIntermediates<T>&,                 \
                                             const RmsNormOptions&);
OPBOOK_INSTANTIATE(Fast, float)
OPBOOK_INSTANTIATE(Fast, float16)
OPBOOK_INSTANTIATE(Fast, bfloat16)
OPBOOK_INSTANTIATE(Metered, float)
OPBOOK_INSTANTIATE(Metered, float16)
OPBOOK_INSTANTIATE(Metered, bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::cpu
