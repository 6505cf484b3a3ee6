#pragma once

// What the CPU does to one head, and to the heads of one block, by the row primitives of either
// backend.

#include <array>
#include <cstdint>

#include "ch28_design/qk_norm_rope_quant.hpp"
#include "common/fast.hpp"
#include "common/rotate.hpp"

namespace opbook::ch28::cpu {

inline constexpr auto copied = [](auto v) { return v; };

/// A row of the flat grid: its number, and whose head it is.
struct HeadPlace {
  std::int64_t row;
  std::int64_t token;
  std::int64_t head;
};

/// The inputs as the flat grid of rows sees them.
template <class T>
struct RowsOfHeads {
  QkHeads<T> in;
  float eps;

  RowsOfHeads(const QkHeads<T>& heads, const QkOptions& options) : in(heads), eps(options.eps) {}

  /// Row i of the grid, by the only division that a row takes.
  HeadPlace place(std::int64_t i) const { return {i, i / in.heads(), i % in.heads()}; }
  /// The row after that, by none.
  HeadPlace after(const HeadPlace& at) const {
    const bool last = at.head + 1 == in.heads();
    return {at.row + 1, at.token + last, last ? 0 : at.head + 1};
  }
  bool is_k(const HeadPlace& at) const { return at.head >= in.q.inner; }
  Row<const T> x(const HeadPlace& at) const {
    return is_k(at) ? in.k.row(at.token, at.head - in.q.inner) : in.q.row(at.token, at.head);
  }
  Row<const T> weight(const HeadPlace& at) const { return is_k(at) ? in.k_weight : in.q_weight; }

  /// What a backend takes for the input: of the right shape, and the right memory too where q and k
  /// lie side by side. It brings rows nearer ahead of time, and reads none of them.
  Rows<const T> stand_in() const {
    Rows<const T> rows = in.q.inner > 0 ? in.q : in.k;
    rows.inner = in.heads();
    return rows;
  }

  /// The columns of a row before those that turn, and those that turn.
  template <class AnyRow>
  AnyRow kept(AnyRow row) const {
    return row.slice(0, row.size - in.rope.rope_dim());
  }
  template <class AnyRow>
  AnyRow turned(AnyRow row) const {
    return row.slice(row.size - in.rope.rope_dim(), in.rope.rope_dim());
  }
};

/// rsqrt(mean(x^2) + eps) of a head, in float32.
template <class Primitives, class T>
auto reciprocal_rms(Primitives& row, Row<const T> x, float eps) {
  const auto mean = row.sum(x, [](auto v) { return v * v; }) / static_cast<float>(x.size);
  return rsqrt(mean + eps);
}

/// to = x * rstd * w of a head, in float32, rounded once to what `to` holds.
template <class Primitives, class Out, class T, class Rstd>
void normalise(Primitives& row, Out to, Row<const T> x, Row<const T> w, Rstd rstd) {
  row.map(to, [=](auto v, auto g) { return v * rstd * g; }, x, w);
}

/// Stores scale i, that of y, and returns it.
template <class Primitives, class T>
auto scale_of(Primitives& row, Row<float> scale, std::int64_t i, Row<const T> y) {
  const auto s = max(row.max_abs(y), 1e-4f) / 448.0f;
  row.store(scale, i, s);
  return s;
}

/// Cosines and sines of one token.
struct Angles {
  std::int64_t token = -1;
  Row<const float> cos, sin;
};

/// The fused operator, head by head.
template <class T>
struct FusedHeads {
  RowsOfHeads<T> rows;
  QuantisedHeads out;

  /// y of a head, in `held`, and its scale.
  template <class Primitives, class Rstd>
  auto y_and_scale(Primitives& row, const HeadPlace& at, Scratch<float> held, Rstd rstd,
                   Row<const T> w, const Angles& angles) const {
    normalise(row, held, rows.x(at), w, rstd);
    if (angles.cos.size > 0) {
      rotate(row, rows.turned(held), Row<const float>(rows.turned(held)), angles.cos, angles.sin);
    }
    const Row<const float> y = held;
    if (out.y.data != nullptr) row.map(out.y.row(at.token, at.head), copied, y);
    return scale_of(row, out.scale, at.row, y);
  }

  template <class Primitives>
  Angles angles_of(Primitives& row, std::int64_t token) const {
    const RopeTables<float>& rope = rows.in.rope;
    if (rope.rope_dim() == 0) return {token, {}, {}};
    const std::int64_t at = rope.positions.table_row(row, token);
    return {token, rope.cos.row(at), rope.sin.row(at)};
  }
};

/// What a block's heads share: read from where it lies, or from a copy on the chip.
enum class Shared { in_place, brought_in };

template <Shared shared, class Primitives, class T>
Row<const T> at_hand(Primitives& row, Row<const T> from) {
  if constexpr (shared == Shared::in_place) return from;
  const Scratch<T> held = row.template scratch<T>(from.size);
  row.map(held, copied, from);
  return held;
}

/// Rows `begin` up to `end` of the grid: the weights that they need, and each token's angles when
/// they come to them. A head waits for its sum, and for its maximum: meanwhile the codes of the
/// head before can be made, so its sum is asked for before them.
template <Shared shared, class T, class Primitives>
void fused_block(Primitives& row, const FusedHeads<T>& fused, std::int64_t begin,
                 std::int64_t end) {
  const RowsOfHeads<T>& rows = fused.rows;
  const Scratch<float> held = row.template scratch<float>(rows.in.dh());
  std::array<Row<const T>, 2> weights{};
  Angles angles;
  HeadPlace at = rows.place(begin);
  auto rstd = reciprocal_rms(row, rows.x(at), rows.eps);
  while (at.row < end) {
    Row<const T>& weight = weights[rows.is_k(at)];
    if (weight.data == nullptr) weight = at_hand<shared>(row, rows.weight(at));
    if (at.token != angles.token) {
      angles = fused.angles_of(row, at.token);
      angles.cos = at_hand<shared>(row, angles.cos);
      angles.sin = at_hand<shared>(row, angles.sin);
    }
    const auto s = fused.y_and_scale(row, at, held, rstd, weight, angles);
    const HeadPlace next = rows.after(at);
    if (next.row < end) rstd = reciprocal_rms(row, rows.x(next), rows.eps);
    row.quantise(fused.out.codes.row(at.token, at.head), Row<const float>(held), s);
    at = next;
  }
}

}  // namespace opbook::ch28::cpu
