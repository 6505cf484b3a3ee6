#pragma once

// Heads of one token for a warp: all of q or all of k, so that what they share is worked out once,
// in registers that are the warp's, and not by each lane for its own row.

#include <cstdint>

#include "ch28_design/held_head.cuh"
#include "common/cuda/ahead.cuh"

namespace opbook::ch28::gpu {

/// Those of one warp: of the token's heads `count` from `first` on.
struct WarpHeads {
  std::uint32_t token, first, count;
  bool of_q;
};

/// How the heads of all tokens are dealt out to blocks of one warp: block after block a token's q
/// heads, `each` a block, and after them its k heads. A block asks the L2 for the same heads of a
/// later token: as many tokens later as half of the `at_once` blocks that the card holds have.
class WarpGrid {
 public:
  template <class T>
  WarpGrid(const HeldInputs<T>& in, std::uint32_t each, std::uint32_t at_once)
      : each_(each),
        blocks_of_q_(ceil_div(in.q_heads, each)),
        blocks_of_token_(blocks_of_q_ + ceil_div(in.heads - in.q_heads, each)),
        tokens_(in.rows / in.heads),
        tokens_ahead_(at_once / 2 / blocks_of_token_ + 1),
        per_token_(blocks_of_token_) {}

  std::int64_t blocks() const { return std::int64_t{tokens_} * blocks_of_token_; }

  template <class T>
  __device__ WarpHeads own(const HeldInputs<T>& in) const {
    const std::uint32_t token = per_token_.quotient(blockIdx.x);
    const std::uint32_t part = blockIdx.x - token * blocks_of_token_;
    const bool of_q = part < blocks_of_q_;
    const std::uint32_t first = of_q ? part * each_ : in.q_heads + (part - blocks_of_q_) * each_;
    return {token, first, min((of_q ? in.q_heads : in.heads) - first, each_), of_q};
  }
  /// Tokens on to those heads that are to be brought nearer; 0 where there are none.
  __device__ std::uint32_t tokens_ahead(const WarpHeads& heads) const {
    return heads.token + tokens_ahead_ < tokens_ ? tokens_ahead_ : 0;
  }

 private:
  static std::uint32_t ceil_div(std::uint32_t a, std::uint32_t b) { return a / b + (a % b != 0); }

  std::uint32_t each_, blocks_of_q_, blocks_of_token_, tokens_, tokens_ahead_;
  FastDivisor per_token_;
};

/// Where a warp's heads are read.
template <class T>
class HeadRows {
 public:
  __device__ HeadRows(const HeldInputs<T>& in, const WarpHeads& heads)
      : outer_(heads.of_q ? in.q.outer : in.k.outer),
        inner_(heads.of_q ? in.q.inner : in.k.inner),
        first_((heads.of_q ? in.q.data : in.k.data) + std::uint64_t{heads.token} * outer_ +
               std::uint64_t{heads.first} * inner_) {}

  /// Head `i` of them.
  __device__ const T* operator[](unsigned i) const {
    return reinterpret_cast<const T*>(first_ + std::uint64_t{i} * inner_);
  }
  /// Asks the L2 for `count` heads of `bytes` each some tokens on, where there are any and they lie
  /// side by side.
  __device__ void bring_nearer(std::uint32_t tokens, std::uint32_t count,
                               std::uint32_t bytes) const {
    if (tokens > 0 && inner_ == bytes) {
      gpu::bring_nearer(first_ + std::uint64_t{tokens} * outer_, count * bytes);
    }
  }

 private:
  std::uint32_t outer_, inner_;
  const std::byte* first_;
};

}  // namespace opbook::ch28::gpu
