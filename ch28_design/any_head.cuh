#pragma once

// Heads of any width, on any boundary, element by element: a warp a head, 128 pairs of columns at a
// time, read again for each of the passes over them. The order of the sum is that of pairs.cuh.

#include <cstdint>

#include "ch28_design/heads.cuh"
#include "ch28_design/pairs.cuh"

namespace opbook::ch28::gpu {

/// A lane's four neighbouring pairs of each 128 of a head; zeros beyond its end.
class AnyPairs {
 public:
  __device__ AnyPairs(int dh, int half) : dh_(dh), half_(half) {}

  /// Whether there are pairs left, for any lane of the warp.
  __device__ bool any() const { return base_ < dh_ / 2; }
  __device__ void next() { base_ += 128; }

  template <class T>
  __device__ void load(const T* head) {
    v_ = {};
    for_each([&](int j, const PairColumns& at) {
      v_.low[j] = as_float(head[at.low]);
      v_.high[j] = as_float(head[at.high]);
    });
  }
  template <class T>
  __device__ void normalise(const T* weight, float rstd) {
    for_each([&](int j, const PairColumns& at) {
      v_.low[j] = v_.low[j] * rstd * as_float(weight[at.low]);
      v_.high[j] = v_.high[j] * rstd * as_float(weight[at.high]);
    });
  }
  __device__ void turn(const Angles<float>& angles) {
    for_each([&](int j, const PairColumns& columns) {
      if (!columns.turns) return;
      float low[1] = {v_.low[j]}, high[1] = {v_.high[j]}, c[1], s[1];
      angles.load(pair() + j, c, s);
      gpu::turn(low, high, c, s);
      v_.low[j] = low[0];
      v_.high[j] = high[0];
    });
  }

  template <class T>
  __device__ void store(T* head) const {
    for_each([&](int j, const PairColumns& at) {
      head[at.low] = rounded_to<T>(v_.low[j]);
      head[at.high] = rounded_to<T>(v_.high[j]);
    });
  }
  __device__ void store_codes(float8_e4m3fn* head, const Quotient<float>& quotient) const {
    for_each([&](int j, const PairColumns& at) {
      const std::uint32_t both = pack_e4m3(quotient(v_.low[j]), quotient(v_.high[j]));
      head[at.low] = {static_cast<std::uint8_t>(both)};
      head[at.high] = {static_cast<std::uint8_t>(both >> 8)};
    });
  }

  __device__ float squares() const { return gpu::squares(v_.low, v_.high); }
  __device__ float largest() const { return v_.largest(); }

 private:
  template <class F>
  __device__ void for_each(F f) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (pair() + j < dh_ / 2) f(j, PairColumns(pair() + j, dh_, half_));
    }
  }
  __device__ int pair() const { return base_ + static_cast<int>(threadIdx.x) % 32 * 4; }

  int dh_, half_;
  int base_ = 0;
  Pairs<4> v_;
};

/// rstd of a whole head, in every lane of its warp.
template <class T>
__device__ float any_rstd(const T* head, int dh, int half, float eps) {
  float sum = 0.0f;
  for (AnyPairs part(dh, half); part.any(); part.next()) {
    part.load(head);
    sum += part.squares();
  }
  return rstd_of(tree_sum<32>(sum), static_cast<float>(dh), eps);
}

/// Scale and codes of what `make(part)` makes of each part of a head.
template <class F>
__device__ void any_quantise(const DeviceOutputs& out, Head head, std::uint32_t row, int dh,
                             int half, F make) {
  float largest = 0.0f;
  for (AnyPairs part(dh, half); part.any(); part.next()) {
    make(part);
    largest = max_abs(largest, part.largest());
  }
  const float scale = scale_of(warp_max(__float_as_uint(largest)));
  if (threadIdx.x % 32 == 0) out.scale[row] = scale;
  for (AnyPairs part(dh, half); part.any(); part.next()) {
    make(part);
    part.store_codes(head_of(out.codes, head), Quotient<float>(scale));
  }
}

}  // namespace opbook::ch28::gpu
