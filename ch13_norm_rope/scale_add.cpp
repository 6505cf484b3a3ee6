#include "ch13_norm_rope/scale_add.hpp"

#include "common/checks.hpp"
#include "common/fast.hpp"
#include "common/replay.hpp"

namespace opbook::ch13::cpu {
namespace {

// A vector is worked on in pieces that the threads share: 16 KiB of float32 each, so that all three
// of a piece's operands stay near the core.
constexpr std::int64_t piece = 4096;

}  // namespace

template <class Backend, class T>
void scale_add_unfused(Backend& backend, Row<const std::type_identity_t<T>> x, float a,
                       Row<const std::type_identity_t<T>> b, Row<T> y,
                       Row<std::type_identity_t<T>> t) {
  check_scale_add<T>(x, b, y);
  require_size("t", t, x.size);
  if (x.size == 0) return;

  backend.kernel("t", in_pieces(x, piece), in_pieces(t, piece), [=](auto& row, std::int64_t i) {
    row.map(piece_of(t, piece, i), [=](auto v) { return v * a; }, piece_of(x, piece, i));
  });
  const Row<const T> scaled = t;
  backend.kernel("y", in_pieces(scaled, piece), in_pieces(y, piece),
                 [=](auto& row, std::int64_t i) {
                   row.map(
                       piece_of(y, piece, i), [](auto v, auto c) { return v + c; },
                       piece_of(scaled, piece, i), piece_of(b, piece, i));
                 });
}

template <class Backend, class T>
void scale_add(Backend& backend, Row<const std::type_identity_t<T>> x, float a,
               Row<const std::type_identity_t<T>> b, Row<T> y) {
  check_scale_add<T>(x, b, y);
  if (x.size == 0) return;

  backend.kernel("fused", in_pieces(x, piece), in_pieces(y, piece), [=](auto& row, std::int64_t i) {
    row.map(
        piece_of(y, piece, i), [=](auto v, auto c) { return fma(v, a, c); }, piece_of(x, piece, i),
        piece_of(b, piece, i));
  });
}

#define OPBOOK_INSTANTIATE(Backend, T)                                                             \
  template void scale_add<Backend, T>(Backend&, Row<const T>, float, Row<const T>, Row<T>);        \
  template void scale_add_unfused<Backend, T>(Backend&, Row<const T>, float, Row<const T>, Row<T>, \
                                              Row<T>);
OPBOOK_INSTANTIATE(Fast, float)
OPBOOK_INSTANTIATE(Fast, float16)
OPBOOK_INSTANTIATE(Fast, bfloat16)
OPBOOK_INSTANTIATE(Metered, float)
OPBOOK_INSTANTIATE(Metered, float16)
OPBOOK_INSTANTIATE(Metered, bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::cpu
