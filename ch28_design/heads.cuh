#pragma once

// The heads of all tokens as a kernel sees them: one flat grid of rows, of which row r is head
// r % heads of token r / heads, q before k.

#include <bit>
#include <cstdint>
#include <string>

#include "ch28_design/qk_norm_rope_quant.hpp"
#include "common/cuda/rope.cuh"
#include "common/cuda/vector.cuh"

namespace opbook::ch28::gpu {

using namespace opbook::gpu;

/// n / d for n below 2^31 by a multiplication and two shifts, where a division takes twenty
/// instructions. With s = ceil(log2 d) and m = ceil(2^(31 + s) / d), which has 32 bits,
/// n m / 2^(31 + s) exceeds n / d by less than 2^-s, and so by less than the 1 / d that would
/// matter.
class FastDivisor {
 public:
  explicit FastDivisor(std::uint32_t d)
      : shift_(std::bit_width(d - 1)),
        multiplier_(static_cast<std::uint32_t>(((std::uint64_t{1} << (31 + shift_)) + d - 1) / d)) {
  }
  __device__ std::uint32_t quotient(std::uint32_t n) const {
    return __umulhi(2 * n, multiplier_) >> shift_;
  }

 private:
  int shift_;
  std::uint32_t multiplier_;
};

/// Where a head stands.
struct Head {
  std::uint32_t token;
  std::uint32_t index;  ///< among the token's heads
};

template <class T>
__device__ T* head_of(const Rows<T>& rows, Head head) {
  return rows.data + head.token * rows.outer_stride + head.index * rows.inner_stride;
}

/// The operator's inputs as a kernel takes them. Throws ArgumentError for more of anything than 31
/// bits count, and for tables whose rows do not lie at one distance from each other.
template <class T>
struct DeviceHeads {
  Rows<const T> q, k;
  const T *q_weight, *k_weight;
  DeviceTables<float> tables;
  FastDivisor per_token;
  std::uint32_t heads, q_heads, rows;
  int dh;
  float eps;

  DeviceHeads(const QkHeads<T>& in, float eps_of_in)
      : q(in.q),
        k(in.k),
        q_weight(in.q_weight.data),
        k_weight(in.k_weight.data),
        tables(in.rope.rope_dim() > 0 ? in.rope : RopeTables<float>{}),
        per_token(counted("heads", in.heads())),
        heads(counted("heads", in.heads())),
        q_heads(counted("heads", in.q.inner)),
        rows(counted("rows", in.rows())),
        dh(static_cast<int>(counted("columns", in.dh()))),
        eps(eps_of_in) {}

  __device__ Head head(std::uint32_t row) const {
    const std::uint32_t token = per_token.quotient(row);
    return {token, row - token * heads};
  }
  /// Selected part by part: a selected view would go through local memory.
  __device__ const T* x(Head head) const {
    const bool of_q = head.index < q_heads;
    const T* const data = of_q ? q.data : k.data;
    const std::int64_t outer_stride = of_q ? q.outer_stride : k.outer_stride;
    const std::int64_t inner_stride = of_q ? q.inner_stride : k.inner_stride;
    const std::uint32_t index = of_q ? head.index : head.index - q_heads;
    return data + head.token * outer_stride + index * inner_stride;
  }
  /// Pairs of columns that turn.
  __host__ __device__ int half() const { return static_cast<int>(tables.half); }
  __device__ const T* weight(Head head) const { return head.index < q_heads ? q_weight : k_weight; }

 private:
  static std::uint32_t counted(const char* what, std::int64_t count) {
    if (count > 0x7FFFFFFF) {
      throw ArgumentError("q and k: got " + std::to_string(count) + ' ' + what +
                          "; allowed on a GPU: up to 2147483647");
    }
    return static_cast<std::uint32_t>(count);
  }
};

/// The outputs as a kernel takes them.
struct DeviceOutputs {
  Rows<float8_e4m3fn> codes;
  float* scale;
  Rows<float> y;

  template <class T>
  DeviceOutputs(const QuantisedHeads& out, const QkHeads<T>& in)
      : codes(by_token(out.codes, in.tokens(), in.heads())),
        scale(out.scale.data),
        y(by_token(out.y, in.tokens(), in.heads())) {}
};

}  // namespace opbook::ch28::gpu
