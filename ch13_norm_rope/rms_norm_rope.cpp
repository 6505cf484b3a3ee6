#include "ch13_norm_rope/rms_norm_rope.hpp"

#include "ch13_norm_rope/row_steps.hpp"
#include "common/checks.hpp"
#include "common/fast.hpp"
#include "common/replay.hpp"

namespace opbook::ch13::cpu {

template <class Backend, class T>
void rms_norm_rope_unfused(Backend& backend, Rows<const std::type_identity_t<T>> x,
                           Row<const std::type_identity_t<T>> w,
                           const RopeTables<std::type_identity_t<T>>& tables, Rows<T> y,
                           Rows<std::type_identity_t<T>> normed, const RmsNormOptions& options) {
  const NormRope<T> in{x, w, tables, options};
  in.check();
  check_norm_rope_output("y", y, in.x, in.w, in.tables);
  check_norm_rope_output("normed", normed, in.x, in.w, in.tables);
  if (x.rows() == 0 || x.cols == 0) return;

  in.norm_kernel(backend, normed);
  in.rope_kernel(backend, normed, y);
}

template <class Backend, class T>
void rms_norm_rope(Backend& backend, Rows<const std::type_identity_t<T>> x,
                   Row<const std::type_identity_t<T>> w,
                   const RopeTables<std::type_identity_t<T>>& tables, Rows<T> y,
                   const RmsNormOptions& options) {
  const NormRope<T> in{x, w, tables, options};
  in.check();
  check_norm_rope_output("y", y, in.x, in.w, in.tables);
  if (x.rows() == 0 || x.cols == 0) return;

  backend.kernel("fused", x, y, [=](auto& row, std::int64_t i) {
    const auto rstd = reciprocal_rms<T>(row, x.row(i), options.eps);
    const auto head_of = [&](auto whole) { return whole.slice(0, in.kept()); };
    normalise<T, true>(row, head_of(y.row(i)), head_of(x.row(i)), head_of(w), rstd, options);
    // Scratch of T: what turns is the rounded value.
    const auto tail = row.template scratch<T>(in.turned());
    normalise<T>(row, tail, in.tail_of(x.row(i)), in.tail_of(w), rstd, options);
    in.rotate_tail(row, i, in.tail_of(y.row(i)), tail);
  });
}

#define OPBOOK_INSTANTIATE(Backend, T)                                                           \
  template void rms_norm_rope<Backend, T>(Backend&, Rows<const T>, Row<const T>,                 \
                                          const RopeTables<T>&, Rows<T>, const RmsNormOptions&); \
  template void rms_norm_rope_unfused<Backend, T>(Backend&, Rows<const T>, Row<const T>,         \
                                                  const RopeTables<T>&, Rows<T>, Rows<T>,        \
                                                  const RmsNormOptions&);
OPBOOK_INSTANTIATE(Fast, float)
OPBOOK_INSTANTIATE(Fast, float16)
OPBOOK_INSTANTIATE(Fast, bfloat16)
OPBOOK_INSTANTIATE(Metered, float)
OPBOOK_INSTANTIATE(Metered, float16)
OPBOOK_INSTANTIATE(Metered, bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::cpu
