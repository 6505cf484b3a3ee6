#include "ch13_norm_rope/rms_norm_rope_quant.hpp"

#include "ch13_norm_rope/row_steps.hpp"
#include "common/checks.hpp"
#include "common/fast.hpp"
#include "common/replay.hpp"

namespace opbook::ch13::cpu {
namespace {

/// One scale and its codes for each group of a row's columns.
template <class Primitives, class T>
void quantise_groups(Primitives& row, Row<float8_e4m3fn> q, Row<float> scale, Row<const T> y) {
  const std::int64_t size = y.size / scale.size;
  for (std::int64_t g = 0; g < scale.size; ++g) {
    const Row<const T> group = y.slice(g * size, size);
    const auto amax = max(row.max_abs(group), 1e-4f);
    const auto s = amax / 448.0f;
    row.store(scale, g, s);
    row.quantise(q.slice(g * size, size), group, s);
  }
}

}  // namespace

template <class Backend, class T>
void rms_norm_rope_quant_unfused(Backend& backend, Rows<const std::type_identity_t<T>> x,
                                 Row<const std::type_identity_t<T>> w,
                                 const RopeTables<std::type_identity_t<T>>& tables,
                                 const Quantised<T>& result, Rows<std::type_identity_t<T>> normed,
                                 const RmsNormRopeQuantOptions& options) {
  const NormRope<T> in{x, w, tables, options.norm};
  check_norm_rope_quant<T>(x, w, tables, result, options);
  require_positions_within(tables);
  check_norm_rope_output("normed", normed, in.x, in.w, in.tables);
  require_shape("y", result.y, x.rows(), x.cols);
  if (x.rows() == 0 || x.cols == 0) return;
  const Rows<const T> rotated = result.y;

  in.norm_kernel(backend, normed);
  in.rope_kernel(backend, normed, result.y);
  backend.kernel("quant", rotated, result.q, [=](auto& row, std::int64_t i) {
    quantise_groups(row, result.q.row(i), result.scale.row(i), rotated.row(i));
  });
}

template <class Backend, class T>
void rms_norm_rope_quant(Backend& backend, Rows<const std::type_identity_t<T>> x,
                         Row<const std::type_identity_t<T>> w,
                         const RopeTables<std::type_identity_t<T>>& tables,
                         const Quantised<T>& result, const RmsNormRopeQuantOptions& options) {
  const NormRope<T> in{x, w, tables, options.norm};
  check_norm_rope_quant<T>(x, w, tables, result, options);
  require_positions_within(tables);
  if (x.rows() == 0 || x.cols == 0) return;

  backend.kernel("fused", x, result.q, [=](auto& row, std::int64_t i) {
    const auto held = row.template scratch<T>(x.cols);
    const Row<const T> y = held;
    rms_norm_row<T>(row, held, x.row(i), w, in.options);
    in.rotate_tail(row, i, in.tail_of(held), in.tail_of(y));
    if (result.y.data != nullptr) row.map(result.y.row(i), [](auto v) { return v; }, y);
    quantise_groups(row, result.q.row(i), result.scale.row(i), y);
  });
}

#define OPBOOK_INSTANTIATE(Backend, T)                                                             \
  template void rms_norm_rope_quant<Backend, T>(Backend&, Rows<const T>, Row<const T>,             \
                                                const RopeTables<T>&, const Quantised<T>&,         \
                                                const RmsNormRopeQuantOptions&);                   \
  template void rms_norm_rope_quant_unfused<Backend, T>(Backend&, Rows<const T>, Row<const T>,     \
                                                        const RopeTables<T>&, const Quantised<T>&, \
                                                        Rows<T>, const RmsNormRopeQuantOptions&);
OPBOOK_INSTANTIATE(Fast, float)
OPBOOK_INSTANTIATE(Fast, float16)
OPBOOK_INSTANTIATE(Fast, bfloat16)
OPBOOK_INSTANTIATE(Metered, float)
OPBOOK_INSTANTIATE(Metered, float16)
OPBOOK_INSTANTIATE(Metered, bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::cpu
