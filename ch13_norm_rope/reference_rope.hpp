#pragma once

// The chapter's rotations and their quantisation in double precision; see reference.hpp.

#include <cstdint>

#include "ch13_norm_rope/reference.hpp"

namespace opbook::ch13::reference {

/// Tables of [tokens, rd / 2], or of [positions, rd / 2] with the row of each token in `positions`.
struct Tables {
  const Array& cos;
  const Array& sin;
  const Array* positions = nullptr;
};

/// x with the last rd columns of each row turned, all of them for `rope`. Rows are dealt out to the
/// tokens in turn: as many a token as it has heads.
Reference rope(const Array& x, const Tables& tables);

/// rms_norm(x, w), rounded, with its last rd columns turned and rounded again; a row is a token.
Reference rms_norm_rope(const Array& x, const Array& w, const Tables& tables,
                        const RmsNormOptions& options);

// Two kernels of the unfused `rope`.

/// (-hi, lo) of each row's halves.
Reference swap_halves(const Array& x);
/// x * table, each half of a row by its token's row of the table.
Reference multiply_table(const Array& x, const Array& table, const Array* positions);

/// Scales and codes of y, to the bit.
struct Quantisation {
  Reference scale;
  Array q;
};

/// amax = max(max |y|, 1e-4) of each row (`group_size` 0) or group of columns, scale = amax / 448
/// in float32, q = e4m3(y / scale). y is rounded already.
Quantisation quantise(const Array& y, std::int64_t group_size);

}  // namespace opbook::ch13::reference
