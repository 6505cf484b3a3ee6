#include "ch13_norm_rope/layer_norm.hpp"

#include "common/checks.hpp"
#include "common/fast.hpp"
#include "common/replay.hpp"

namespace opbook::ch13::cpu {
template <class Backend, class T>
void layer_norm_unfused(Backend& backend, Rows<const std::type_identity_t<T>> x,
                        Row<const std::type_identity_t<T>> g, Row<const std::type_identity_t<T>> b,
                        Rows<T> y, const LayerNormIntermediates<T>& intermediates, float eps) {
  check_layer_norm<T>(x, g, b, y, eps);
  const Rows<T> x2 = intermediates.x2, centered = intermediates.centered;
  const Rows<T> scaled = intermediates.scaled;
  const Row<float> sum_x = intermediates.sum_x, sum_x2 = intermediates.sum_x2;
  const Row<float> mean = intermediates.mean, rstd = intermediates.rstd;
  const std::int64_t m = x.rows();
  check_intermediates(intermediates, m, x.cols);
  if (m == 0 || x.cols == 0) return;
  const float n = static_cast<float>(x.cols);
  const auto itself = [](auto v) { return v; };

  backend.kernel("x2", x, x2, [=](auto& row, std::int64_t i) {
    row.map(x2.row(i), [](auto v) { return v * v; }, x.row(i));
  });
  backend.kernel("sum_x", x, one_a_row(sum_x), [=](auto& row, std::int64_t i) {
    row.store(sum_x, i, row.sum(x.row(i), itself));
  });
  const Rows<const T> squares = x2;
  backend.kernel("sum_x2", squares, one_a_row(sum_x2), [=](auto& row, std::int64_t i) {
    row.store(sum_x2, i, row.sum(squares.row(i), itself));
  });
  const Row<const float> sums = sum_x;
  backend.kernel("stats", one_a_row(sums), one_a_row(mean), [=](auto& row, std::int64_t i) {
    const auto mu = row.load(sums, i) / n;
    row.store(mean, i, mu);
    row.store(rstd, i, rsqrt(row.load(sum_x2, i) / n - mu * mu + eps));
  });
  backend.kernel("centered", x, centered, [=](auto& row, std::int64_t i) {
    const auto mu = row.load(mean, i);
    row.map(centered.row(i), [=](auto v) { return v - mu; }, x.row(i));
  });
  const Rows<const T> differences = centered;
  backend.kernel("scaled", differences, scaled, [=](auto& row, std::int64_t i) {
    const auto r = row.load(rstd, i);
    row.map(scaled.row(i), [=](auto v) { return v * r; }, differences.row(i));
  });
  const Rows<const T> normalised = scaled;
  backend.kernel("y", normalised, y, [=](auto& row, std::int64_t i) {
    const auto apply = [](auto v, auto gain, auto bias) { return fma(v, gain, bias); };
    row.map(y.row(i), apply, normalised.row(i), g, b);
  });
}

template <class Backend, class T>
void layer_norm(Backend& backend, Rows<const std::type_identity_t<T>> x,
                Row<const std::type_identity_t<T>> g, Row<const std::type_identity_t<T>> b,
                Rows<T> y, float eps) {
  check_layer_norm<T>(x, g, b, y, eps);
  if (x.rows() == 0 || x.cols == 0) return;
  const float n = static_cast<float>(x.cols);

  backend.kernel("fused", x, y, [=](auto& row, std::int64_t i) {
    const auto itself = [](auto v) { return v; };
    const auto mean = row.sum_begun(x.row(i), itself) / n;
    const auto square = [=](auto v) {
      const auto difference = v - mean;
      return difference * difference;
    };
    const auto rstd = rsqrt(row.sum(x.row(i), square) / n + eps);
    const auto apply = [=](auto v, auto gain, auto bias) {
      return fma((v - mean) * rstd, gain, bias);
    };
    row.template map_and_sum_next<T>(y.row(i), apply, itself, x.row(i), g, b);
  });
}

#define OPBOOK_INSTANTIATE(Backend, T)                                                      \
  template void layer_norm<Backend, T>(Backend&, Rows<const T>, Row<const T>, Row<const T>, \
                                       Rows<T>, float);                                     \
  template void layer_norm_unfused<Backend, T>(Backend&, Rows<const T>, Row<const T>,       \
                                               Row<const T>, Rows<T>,                       \
                                               const LayerNormIntermediates<T>&, float);
OPBOOK_INSTANTIATE(Fast, float)
OPBOOK_INSTANTIATE(Fast, float16)
OPBOOK_INSTANTIATE(Fast, bfloat16)
OPBOOK_INSTANTIATE(Metered, float)
OPBOOK_INSTANTIATE(Metered, float16)
OPBOOK_INSTANTIATE(Metered, bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::cpu
