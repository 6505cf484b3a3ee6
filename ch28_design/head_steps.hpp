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

/// to = x * rsqrt(mean(x^2) + eps) * w of a head, in float32, rounded once to what `to` holds.
template <class Primitives, class Out, class T>
void normalise(Primitives& row, Out to, Row<const T> x, Row<const T> w, float eps) {
  const auto mean = row.sum(x, [](auto v) { return v * v; }) / static_cast<float>(x.size);
  const auto rstd = rsqrt(mean + eps);
  row.map(to, [=](auto v, auto g) { return v * rstd * g; }, x, w);
}

/// Scale i, and the codes of y.
template <class Primitives, class T>
void quantise(Primitives& row, Row<float8_e4m3fn> codes, Row<float> scale, std::int64_t i,
              Row<const T> y) {
  const auto s = max(row.max_abs(y), 1e-4f) / 448.0f;
  row.store(scale, i, s);
  row.quantise(codes, y, s);
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

  template <class Primitives>
  void head(Primitives& row, const HeadPlace& at, Scratch<float> held, Row<const T> w,
            const Angles& angles) const {
    normalise(row, held, rows.x(at), w, rows.eps);
    if (angles.cos.size > 0) {
      rotate(row, rows.turned(held), Row<const float>(rows.turned(held)), angles.cos, angles.sin);
    }
    const Row<const float> y = held;
    if (out.y.data != nullptr) row.map(out.y.row(at.token, at.head), copied, y);
    quantise(row, out.codes.row(at.token, at.head), out.scale, at.row, y);
  }

  template <class Primitives>
  Angles angles_of(Primitives& row, std::int64_t token) const {
    const RopeTables<float>& rope = rows.in.rope;
    if (rope.rope_dim() == 0) return {token, {}, {}};
    const std::int64_t at = rope.positions.table_row(row, token);
    return {token, rope.cos.row(at), rope.sin.row(at)};
  }
};

/// A copy on the chip, for all rows of a block.
template <class T, class Primitives>
Row<const T> brought_in(Primitives& row, Row<const T> from) {
  const Scratch<T> held = row.template scratch<T>(from.size);
  row.map(held, copied, from);
  return held;
}

/// A block brings in the weights that it needs, and each token's angles when it comes to them.
template <class T, class Primitives>
void fused_block(Primitives& row, const FusedHeads<T>& fused, std::int64_t begin,
                 std::int64_t end) {
  const Scratch<float> held = row.template scratch<float>(fused.rows.in.dh());
  std::array<Row<const T>, 2> weights{};
  Angles angles;
  for (std::int64_t i = begin; i < end; ++i) {
    const HeadPlace at = fused.rows.place(i);
    Row<const T>& weight = weights[fused.rows.is_k(at)];
    if (weight.data == nullptr) weight = brought_in<T>(row, fused.rows.weight(at));
    if (at.token != angles.token) {
      angles = fused.angles_of(row, at.token);
      angles.cos = brought_in<float>(row, angles.cos);
      angles.sin = brought_in<float>(row, angles.sin);
    }
    fused.head(row, at, held, weight, angles);
  }
}

}  // namespace opbook::ch28::cpu
