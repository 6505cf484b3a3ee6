#include "ch28_design/qk_norm_rope_quant.hpp"

#include "ch28_design/head_steps.hpp"
#include "common/fast.hpp"
#include "common/replay.hpp"

namespace opbook::ch28::cpu {
namespace {

/// Heads that a thread takes up together in design D: enough that one's sum hardly ever has to be
/// waited for, few enough that few tokens still keep all threads busy.
constexpr std::int64_t rows_per_group = 8;

std::int64_t rows_per_block(const QkOptions& options, std::int64_t heads) {
  if (options.design == Design::A) return 1;
  return options.design == Design::B ? options.rows_per_block : heads;
}

}  // namespace

template <class Backend, class T>
void qk_norm_rope_quant(Backend& backend, const QkHeads<T>& in, const QuantisedHeads& out,
                        const QkOptions& options) {
  check_qk_norm_rope_quant(in, out, options);
  require_positions_within(in.rope);
  if (in.rows() == 0 || in.dh() == 0) return;
  FusedHeads<T> fused{{in, options}, out};
  fused.out.codes = by_token(out.codes, in.tokens(), in.heads());
  fused.out.y = by_token(out.y, in.tokens(), in.heads());
  const Rows<const T> x = fused.rows.stand_in();

  if (options.design == Design::D) {  // one call: a core's caches keep what its rows share
    backend.groups("fused", x, fused.out.codes, rows_per_group,
                   [=](auto& row, std::int64_t begin, std::int64_t end) {
                     fused_block<Shared::in_place>(row, fused, begin, end);
                   });
  } else {
    backend.blocks("fused", x, fused.out.codes, rows_per_block(options, in.heads()),
                   [=](auto& row, std::int64_t begin, std::int64_t end) {
                     fused_block<Shared::brought_in>(row, fused, begin, end);
                   });
  }
}

template <class Backend, class T>
void qk_norm_rope_quant_unfused(Backend& backend, const QkHeads<T>& in, const QuantisedHeads& out,
                                const QkIntermediates<T>& intermediates, const QkOptions& options) {
  check_qk_unfused(in, out, intermediates, options);
  require_positions_within(in.rope);
  if (in.rows() == 0 || in.dh() == 0) return;
  const FusedHeads<T> heads{{in, options}, {}};
  const auto shaped = [&](auto any) { return by_token(any, in.tokens(), in.heads()); };
  const Rows<T> normed = shaped(intermediates.normed), rotated = shaped(intermediates.rotated);
  const Rows<float8_e4m3fn> codes = shaped(out.codes);

  backend.kernel("norm", heads.rows.stand_in(), normed, [=](auto& row, std::int64_t i) {
    const HeadPlace at = heads.rows.place(i);
    const Row<const T> of = heads.rows.x(at);
    normalise(row, normed.row(at.token, at.head), of, heads.rows.weight(at),
              reciprocal_rms(row, of, heads.rows.eps));
  });
  backend.kernel("rope", Rows<const T>(normed), rotated, [=](auto& row, std::int64_t i) {
    const HeadPlace at = heads.rows.place(i);
    const Row<const T> from = normed.row(at.token, at.head);
    const Row<T> to = rotated.row(at.token, at.head);
    row.map(heads.rows.kept(to), copied, heads.rows.kept(from));
    const Angles angles = heads.angles_of(row, at.token);
    if (angles.cos.size == 0) return;
    rotate(row, heads.rows.turned(to), heads.rows.turned(from), angles.cos, angles.sin);
  });
  backend.kernel("quant", Rows<const T>(rotated), codes, [=](auto& row, std::int64_t i) {
    const Row<const T> y = rotated.row(i);
    row.quantise(codes.row(i), y, scale_of(row, out.scale, i, y));
  });
}

#define OPBOOK_INSTANTIATE(Backend, T)                                                             \
  template void qk_norm_rope_quant<Backend, T>(Backend&, const QkHeads<T>&, const QuantisedHeads&, \
                                               const QkOptions&);                                  \
  template void qk_norm_rope_quant_unfused<Backend, T>(                                            \
      Backend&, const QkHeads<T>&, const QuantisedHeads&, const QkIntermediates<T>&,               \
      const QkOptions&);
OPBOOK_INSTANTIATE(Fast, float16)
OPBOOK_INSTANTIATE(Fast, bfloat16)
OPBOOK_INSTANTIATE(Metered, float16)
OPBOOK_INSTANTIATE(Metered, bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch28::cpu
