#include "ch13_norm_rope/add_rms_norm.hpp"

#include "ch13_norm_rope/rms_norm_row.hpp"
#include "common/checks.hpp"
#include "common/fast.hpp"
#include "common/replay.hpp"

namespace opbook::ch13::cpu {
template <class Backend, class T>
void add_rms_norm_unfused(Backend& backend, Rows<const std::type_identity_t<T>> x,
                          Rows<const std::type_identity_t<T>> r,
                          Row<const std::type_identity_t<T>> w, Rows<std::type_identity_t<T>> s,
                          Rows<T> y, const RmsNormIntermediates<T>& intermediates,
                          const RmsNormOptions& options) {
  check_add_rms_norm<T>(x, r, w, s, y, options);
  if (x.rows() == 0 || x.cols == 0) return;

  backend.kernel("add", x, s, [=](auto& row, std::int64_t i) {
    row.map(s.row(i), [](auto v, auto residual) { return v + residual; }, x.row(i), r.row(i));
  });
  rms_norm_unfused(backend, s, w, y, intermediates, options);
}

template <class Backend, class T>
void add_rms_norm(Backend& backend, Rows<const std::type_identity_t<T>> x,
                  Rows<const std::type_identity_t<T>> r, Row<const std::type_identity_t<T>> w,
                  Rows<std::type_identity_t<T>> s, Rows<T> y, const RmsNormOptions& options) {
  check_add_rms_norm<T>(x, r, w, s, y, options);
  if (x.rows() == 0 || x.cols == 0) return;

  backend.kernel("fused", x, y, [=](auto& row, std::int64_t i) {
    const auto sum = row.template scratch<T>(x.cols);
    const auto add = [](auto v, auto residual) { return v + residual; };
    row.map_keeping(sum, s.row(i), add, x.row(i), r.row(i));
    normalise<T>(row, y.row(i), sum, w, reciprocal_rms<T>(row, sum, options.eps), options);
  });
}

#define OPBOOK_INSTANTIATE(Backend, T)                                                         \
  template void add_rms_norm<Backend, T>(Backend&, Rows<const T>, Rows<const T>, Row<const T>, \
                                         Rows<T>, Rows<T>, const RmsNormOptions&);             \
  template void add_rms_norm_unfused<Backend, T>(                                              \
      Backend&, Rows<const T>, Rows<const T>, Row<const T>, Rows<T>, Rows<T>,                  \
      const RmsNormIntermediates<T>&, const RmsNormOptions&);
OPBOOK_INSTANTIATE(Fast, float)
OPBOOK_INSTANTIATE(Fast, float16)
OPBOOK_INSTANTIATE(Fast, bfloat16)
OPBOOK_INSTANTIATE(Metered, float)
OPBOOK_INSTANTIATE(Metered, float16)
OPBOOK_INSTANTIATE(Metered, bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::cpu
