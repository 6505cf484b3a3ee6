#include "ch02_roofline/multiply_add_chain.hpp"

#include "ch02_roofline/ledger.hpp"
#include "common/fast.hpp"
#include "common/replay.hpp"

namespace opbook::ch02::cpu {
namespace {

// A vector is worked on in pieces that the threads share: 16 KB of float32 each, and whole blocks
// of chains for registers of any width.
constexpr std::int64_t piece = 4032;

}  // namespace

template <class Backend, class T>
void multiply_add_chain_unfused(Backend& backend, Row<const std::type_identity_t<T>> x, float a,
                                float b, std::int64_t k, Row<T> y) {
  check_chain<T>(x, k, y);
  if (x.size == 0) return;

  for (std::int64_t step = 1; step <= k; ++step) {
    const Row<const T> from = step == 1 ? x : y;
    backend.kernel(step_name(step).c_str(), in_pieces(from, piece), in_pieces(y, piece),
                   [=](auto& row, std::int64_t i) {
                     row.map(
                         piece_of(y, piece, i), [=](auto v) { return fma(v, a, b); },
                         piece_of(from, piece, i));
                   });
  }
}

template <class Backend, class T>
void multiply_add_chain(Backend& backend, Row<const std::type_identity_t<T>> x, float a, float b,
                        std::int64_t k, Row<T> y) {
  check_chain<T>(x, k, y);
  if (x.size == 0) return;

  const auto chain = [=](auto& values) {
    using Value = std::remove_cvref_t<decltype(values[0])>;
    const Value factor(a), addend(b);
    std::int64_t left = k;
    do {  // at least one: the compiler keeps no copy for none, which would cost a tenth at k = 32
#pragma GCC unroll 16
      for (Value& v : values) v = fma(v, factor, addend);
    } while (--left > 0);
  };
  backend.kernel("fused", in_pieces(x, piece), in_pieces(y, piece), [=](auto& row, std::int64_t i) {
    row.map_chains(piece_of(y, piece, i), chain, piece_of(x, piece, i));
  });
}

#define OPBOOK_INSTANTIATE(Backend, T)                                                             \
  template void multiply_add_chain<Backend, T>(Backend&, Row<const T>, float, float, std::int64_t, \
                                               Row<T>);                                            \
  template void multiply_add_chain_unfused<Backend, T>(Backend&, Row<const T>, float, float,       \
                                                       std::int64_t, Row<T>);
OPBOOK_INSTANTIATE(Fast, float)
OPBOOK_INSTANTIATE(Fast, float16)
OPBOOK_INSTANTIATE(Fast, bfloat16)
OPBOOK_INSTANTIATE(Metered, float)
OPBOOK_INSTANTIATE(Metered, float16)
OPBOOK_INSTANTIATE(Metered, bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch02::cpu
