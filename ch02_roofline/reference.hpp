#pragma once

// The chain by its definition, plain and slow, sharing nothing with the implementations: once step
// by step in the roundings that the definition prescribes, which leaves nothing to tolerate, and
// once in double with a bound on what those roundings can do.

#include <cstdint>

#include "ch02_roofline/ledger.hpp"
#include "common/array.hpp"
#include "common/verify.hpp"

namespace opbook::ch02::reference {

/// Each step a fused multiply-add of float32; where `each_step`, rounded to x's dtype as well. The
/// last result is rounded to it in any case. Exact: tolerance 0.
Expected by_definition(const Array& x, float a, float b, std::int64_t k, bool each_step);

/// The fused chain in double. Its slack is the running error of float32: each step is wrong by half
/// an ulp of its result, at most 2^-24 of it (2^-150 where it underflows), and scales by |a| what
/// the steps before were wrong by. (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
/// edition, section 3.3.) A result beyond float32's range is infinite from there on. Tolerance: the
/// last rounding, one ulp, since half an ulp is twice as long where it leads past a power of two.
Expected in_double(const Array& x, float a, float b, std::int64_t k);

}  // namespace opbook::ch02::reference
