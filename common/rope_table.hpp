#pragma once

#include "common/array.hpp"

namespace opbook {

enum class Wave { cosine, sine };

/// Fills a [positions, rope_dim / 2] table: element (p, i) is the cosine or sine of
/// p * theta^(-2i / rope_dim), formed and reduced in double and rounded once to the array's dtype.
/// (In bfloat16 position 15962 alone would become 15936.) Throws ArgumentError for a rank other
/// than 2, an integer dtype, or a theta that is not a finite number above zero.
void fill_rope_table(Array& table, Wave wave, double theta = 10000.0);

}  // namespace opbook
