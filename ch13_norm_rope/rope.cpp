#include "ch13_norm_rope/rope.hpp"

#include <string>

#include "common/checks.hpp"
#include "common/fast.hpp"
#include "common/replay.hpp"
#include "common/rotate.hpp"

namespace opbook::ch13::cpu {
namespace {

/// A token's heads as one row, with whatever lies between them: the unit that kernels go through,
/// since a token's angles serve all its heads.
template <class T>
Rows<T> tokens_of(Rows<T> x) {
  return strided_rows(x.data, x.outer, (x.inner - 1) * x.inner_stride + x.cols, x.outer_stride);
}

/// One kernel: body(primitives, token, head) for every head of every token.
template <class Backend, class T, class Body>
void for_heads(Backend& backend, const char* name, Rows<const T> in, Rows<T> out, Body body) {
  backend.kernel(name, tokens_of(in), tokens_of(out), [=](auto& row, std::int64_t token) {
    for (std::int64_t head = 0; head < in.inner; ++head) body(row, token, head);
  });
}

}  // namespace

template <class Backend, class T>
void rope_unfused(Backend& backend, Rows<const std::type_identity_t<T>> x,
                  const RopeTables<std::type_identity_t<T>>& tables, Rows<T> y,
                  const RopeIntermediates<T>& intermediates) {
  check_rope<T>(x, tables, y);
  require_positions_within(tables);
  const Rows<T> rot = intermediates.rot, t = intermediates.t, u = intermediates.u;
  check_intermediates<T>(intermediates, x);
  if (x.rows() == 0 || x.cols == 0) return;
  const Rows<const T> turned = rot, along = t, across = u;
  const auto scale = [](auto low, auto high, auto v) { return LowHigh{low * v, high * v}; };

  for_heads(backend, "rot", x, rot, [=](auto& row, std::int64_t token, std::int64_t head) {
    const auto swap = [](auto low, auto high) { return LowHigh{-high, low}; };
    row.map_pairs(rot.row(token, head), swap, x.row(token, head));
  });
  for_heads(backend, "t", x, t, [=](auto& row, std::int64_t token, std::int64_t head) {
    const Row<const T> cos = tables.cos.row(tables.positions.table_row(row, token));
    row.map_pairs(t.row(token, head), scale, x.row(token, head), cos);
  });
  for_heads(backend, "u", turned, u, [=](auto& row, std::int64_t token, std::int64_t head) {
    const Row<const T> sin = tables.sin.row(tables.positions.table_row(row, token));
    row.map_pairs(u.row(token, head), scale, turned.row(token, head), sin);
  });
  for_heads(backend, "y", along, y, [=](auto& row, std::int64_t token, std::int64_t head) {
    const auto add = [](auto a, auto b) { return a + b; };
    row.map(y.row(token, head), add, along.row(token, head), across.row(token, head));
  });
}

template <class Backend, class T>
void rope(Backend& backend, Rows<const std::type_identity_t<T>> x,
          const RopeTables<std::type_identity_t<T>>& tables, Rows<T> y) {
  check_rope<T>(x, tables, y);
  require_positions_within(tables);
  if (x.rows() == 0 || x.cols == 0) return;

  for_heads(backend, "fused", x, y, [=](auto& row, std::int64_t token, std::int64_t head) {
    const std::int64_t at = tables.positions.table_row(row, token);
    rotate(row, y.row(token, head), x.row(token, head), tables.cos.row(at), tables.sin.row(at));
  });
}

#define OPBOOK_INSTANTIATE(Backend, T)                                                           \
  template void rope<Backend, T>(Backend&, Rows<const T>, const RopeTables<T>&, Rows<T>);        \
  template void rope_unfused<Backend, T>(Backend&, Rows<const T>, const RopeTables<T>&, Rows<T>, \
                                         const RopeIntermediates<T>&);
OPBOOK_INSTANTIATE(Fast, float)
OPBOOK_INSTANTIATE(Fast, float16)
OPBOOK_INSTANTIATE(Fast, bfloat16)
OPBOOK_INSTANTIATE(Metered, float)
OPBOOK_INSTANTIATE(Metered, float16)
OPBOOK_INSTANTIATE(Metered, bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::cpu
