#pragma once

// The operator in double precision: plain, slow, obviously right, sharing nothing with the
// implementations. Each function gives what an output should be, and how far float32 may stray.
//
// Notation of the derivations: u = 2^-24 is half an ulp of float32 (relative); first-order errors
// add, and a square root halves them.

#include <cstdint>

#include "common/array.hpp"
#include "common/verify.hpp"

namespace opbook::ch28::reference {

/// The inputs of all rows. `x` is [..., heads in memory, dh]: of each token the first q_heads heads
/// are q, the next kv_heads are k, and others may follow that are not read.
struct Heads {
  const Array& x;
  std::int64_t tokens = 0;
  std::int64_t q_heads = 0;
  std::int64_t kv_heads = 0;
  const Array* q_weight = nullptr;
  const Array* k_weight = nullptr;
  float eps = 1e-6f;

  std::int64_t heads() const { return q_heads + kv_heads; }
  std::int64_t rows() const { return tokens * heads(); }
};

/// float32 tables of [tokens, rd / 2], or of [positions, rd / 2] with an index a token.
struct Tables {
  const Array& cos;
  const Array& sin;
  const Array* positions = nullptr;
};

/// What one tensor should be.
struct Reference {
  Expected expected;
  double tolerance_ulp = 0.5;
};

/// x * rsqrt(mean(x^2) + eps) * w, rounded once to x's dtype: [rows, dh].
Reference normed(const Heads& heads);

/// The last rd columns of each row of `normed` turned, rounded once to its dtype. Rows are dealt
/// out to the tokens in turn, `heads` to each.
Reference rotated(const Array& normed, std::int64_t heads, const Tables& tables);

/// Both without a rounding in between: y in float32.
Reference y(const Heads& heads, const Tables& tables);

/// Scales and codes of y, to the bit.
struct Quantisation {
  Array scale;  ///< [rows]
  Array codes;  ///< y's shape
};

/// Of each row: amax = max(max |y|, 1e-4), scale = amax / 448 in float32, code = e4m3(y / scale).
Quantisation quantise(const Array& y);

}  // namespace opbook::ch28::reference
