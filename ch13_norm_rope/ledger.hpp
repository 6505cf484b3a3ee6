#pragma once

// Chapter 13 on paper: each operator's two plans, unfused and fused, under both conventions. Source
// of every line: the book's section 13 (`book`), and the same with its errata mended (`exact`).

#include "ch13_norm_rope/arguments.hpp"
#include "common/ledger.hpp"

namespace opbook::ch13 {

// Each throws ArgumentError, naming the argument, its value and what is allowed, for sizes below 1,
// an odd rope_dim or one above n, a group_size that does not divide n, a dtype not listed above,
// the exact convention's extras under the book's, and bytes or FLOPs beyond int64.

/// y = x * a + b; a scalar, b of length n.
Case scale_add_case(const Arguments& arguments, Convention convention);

/// y = x * rsqrt(mean(x^2) + eps) * w, over rows of n.
Case rms_norm_case(const Arguments& arguments, Convention convention);

/// y = (x - mean) * rstd * g + b, over rows of n.
Case layer_norm_case(const Arguments& arguments, Convention convention);

/// NeoX half rotation of every column: y = x * cos + cat(-hi, lo) * sin.
Case rope_case(const Arguments& arguments, Convention convention);

/// y = rope(rms_norm(x, w)), the last rope_dim columns of each row turned.
Case rms_norm_rope_case(const Arguments& arguments, Convention convention);

/// The same, then quantised with one float32 scale a row or a group of columns.
Case rms_norm_rope_quant_case(const Arguments& arguments, Convention convention);

/// s = x + r, rounded; y = rms_norm(s); both come out. Under the exact convention alone.
Case add_rms_norm_case(const Arguments& arguments, Convention convention);

}  // namespace opbook::ch13
