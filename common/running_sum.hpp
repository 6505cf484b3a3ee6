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
    std::array<float, sum_lanes> lanes;
    for (int p = 0; p < pairs; ++p) {
      float* const to = lanes.data() + p * pair_elements;
      for (int lane = 0; lane < pack_lanes; ++lane) {
        const bool split = order == PairOrder::even_odd;
        to[split ? 2 * lane : lane] = partial_[p].first.lanes[lane];
        to[split ? 2 * lane + 1 : pack_lanes + lane] = partial_[p].second.lanes[lane];
      }
    }
    for (int lane = 0; i_ < x_.size; ++i_, ++lane) lanes[lane] += f_(to_float(x_.data[i_]));
    return fold(lanes);
  }

 private:
  static constexpr PairOrder order = pair_order<T>;
  static constexpr int pairs = sum_lanes / pair_elements;

  /// A row waits for its sum: hence whole packs first, and unrolled.
  static float fold(std::array<float, sum_lanes>& lanes) {
    int half = sum_lanes / 2;
#pragma GCC unroll 8
    for (; half >= pack_lanes; half /= 2) {
#pragma GCC unroll 8
      for (int lane = 0; lane < half; lane += pack_lanes) {
        float* const low = lanes.data() + lane;
        store_pack(low, load_pack(low) + load_pack(low + half));
      }
    }
#pragma GCC unroll 8
    for (; half > 0; half /= 2) {
#pragma GCC unroll 8
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    return lanes[0];
  }

  Row<const T> x_;
  F f_;
  std::int64_t i_ = 0;
  std::array<PackPair, pairs> partial_;
};

}  // namespace opbook
