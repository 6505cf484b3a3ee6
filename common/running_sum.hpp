#pragma once

// Sums over a row, in one order whatever the machine: element i is added to partial sum i mod 32,
// and the 32 partial sums are folded in halves. So a result does not depend on the width of the
// machine's registers, on the number of threads, or on the backend.

#include <array>
#include <cstdint>

#include "common/rows.hpp"
#include "common/simd.hpp"

namespace opbook {

/// Partial sums of a reduction; see the head of this file.
inline constexpr int sum_lanes = 32;

/// f(x[0]) + f(x[1]) + ... in float32, sum_lanes elements a step, so that other work can go on
/// between the steps.
template <class T, class F>
class RunningSum {
 public:
  RunningSum(Row<const T> x, F f) : x_(x), f_(f) { partial_.fill({Pack(0.0f), Pack(0.0f)}); }

  /// Does nothing where fewer than sum_lanes elements are left.
  void step() {
    if (i_ + sum_lanes > x_.size) return;
    for (int p = 0; p < pairs; ++p) {
      const PackPair v = load_pair<order>(x_.data + i_ + p * pair_elements);
      partial_[p].first = partial_[p].first + f_(v.first);
      partial_[p].second = partial_[p].second + f_(v.second);
    }
    i_ += sum_lanes;
  }

  /// The sum, once all that was left has been added.
  float finish() {
    while (i_ + sum_lanes <= x_.size) step();
    if (i_ < x_.size) add_rest();
    return fold();
  }

 private:
  static constexpr PairOrder order = pair_order<T>;
  static constexpr int pairs = sum_lanes / pair_elements;

  /// What is left, element by element: in a copy, for which of its lanes a register cannot say.
  void add_rest() {
    std::array<PackPair, pairs> sums = partial_;
    for (int lane = 0; i_ < x_.size; ++i_, ++lane) {
      PackPair& pair = sums[lane / pair_elements];
      const int at = lane % pair_elements;
      const bool split = order == PairOrder::even_odd;
      Pack& pack = (split ? at % 2 : at / pack_lanes) == 0 ? pair.first : pair.second;
      pack.lanes[split ? at / 2 : at % pack_lanes] += f_(to_float(x_.data[i_]));
    }
    for (int p = 0; p < pairs; ++p) partial_[p] = sums[p];
  }

  /// In halves, and without leaving the registers: a row waits for its sum.
  float fold() {
    for (int half = pairs / 2; half > 0; half /= 2) {
      for (int p = 0; p < half; ++p) {
        partial_[p].first = partial_[p].first + partial_[p + half].first;
        partial_[p].second = partial_[p].second + partial_[p + half].second;
      }
    }
    const auto add = [](Pack::Floats a, Pack::Floats b) { return a + b; };
    const auto [first, second] = partial_[0];
    if constexpr (order == PairOrder::halves) return fold_lanes((first + second).lanes, add);
    return fold_lanes(first.lanes, add) + fold_lanes(second.lanes, add);  // the last half: 1
  }

  Row<const T> x_;
  F f_;
  std::int64_t i_ = 0;
  std::array<PackPair, pairs> partial_;
};

}  // namespace opbook
