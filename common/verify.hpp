#pragma once

// Verdicts on outputs: rounding and spacing of the number formats for references, comparisons in
// which a NaN, an element never written and a damaged guard band fail, and the bounds from which
// tolerances are derived.

#include <cstdint>
#include <string>
#include <vector>

#include "common/array.hpp"
#include "common/dtype.hpp"

namespace opbook {

/// `value` rounded once to a float dtype: nearest, ties to even; NaN stays NaN; overflow gives Inf,
/// in e4m3 +-448. Works on values, in double, where dtype.hpp works on bits: each checks the other.
/// Throws ArgumentError for an integer dtype.
double round_to(Dtype dtype, double value);

/// Distance between neighbouring numbers of a float dtype at |value|: among subnormals the smallest
/// step, beyond the largest finite number the step that leads to it, NaN for NaN. Throws
/// ArgumentError for an integer dtype.
double ulp(Dtype dtype, double value);

/// What an output should be, element by element in row-major order.
struct Expected {
  std::vector<double> value;  ///< before the final rounding to the output's dtype
  /// How far the roundings inside the operator's definition and its float32 accumulation may move
  /// the value, absolute; empty means nowhere.
  std::vector<double> slack;
};

struct Mismatch {
  std::int64_t index;  ///< row-major
  double expected;
  double actual;
  double ulps;  ///< Inf where only one of the two is a NaN
};

struct Verdict {
  std::string name;  ///< of the array under test
  bool pass = false;
  std::int64_t elements = 0;
  double worst_ulp = 0;  ///< largest |actual - expected| / ulp(expected); correctly rounded: <= 0.5
  double tolerance_ulp = 0;
  std::int64_t worst_index = -1;  ///< -1 where no elements were compared
  std::int64_t mismatches = 0;
  std::vector<Mismatch> first;  ///< the first five at most
  std::string problem;          ///< what is wrong beyond the values; empty if nothing

  /// One line; where values differ, the first mismatches on lines of their own.
  std::string describe() const;
};

/// Holds an output against its reference. An element passes if both are NaN, or if it is `expected`
/// correctly rounded, or if |actual - expected| <= tolerance_ulp * ulp(expected) + slack; the sign
/// of zero is ignored. An Inf where a finite number is expected passes only if a value within that
/// distance would round to it. Element counts that differ, damaged guard bands and elements that
/// still hold the poison (not even where NaN is expected) fail, named in `problem`. Throws
/// ArgumentError where tolerance_ulp is negative or not finite.
Verdict compare(const Array& actual, const Expected& expected, double tolerance_ulp);

/// Holds two arrays of one dtype and shape against each other. With ulps = 0 every bit must agree,
/// also the sign of zero and the payload of a NaN; otherwise elements may lie that many
/// representable steps apart (Inf is one step beyond the largest finite number) and any NaN agrees
/// with any other. Dtypes or shapes that differ, damaged guard bands and elements that only
/// `expected` has written fail, named in `problem`. Throws ArgumentError where ulps is negative.
Verdict compare_bits(const Array& actual, const Array& expected, int ulps = 0);

/// Throws CheckFailed, with describe() as its text, unless the verdict is a pass.
void require(const Verdict& verdict);

/// Bound on the relative error of a float32 sum of n non-negative terms, each the rounded result of
/// one operation, added in `lanes` interleaved partial sums, then in a binary tree over the lanes.
/// No term passes through more than k = ceil(n / lanes) + ceil(log2(lanes)) roundings (its own, and
/// one fewer in its lane, whose first addition is to an exact zero), so the bound is
/// gamma_k = k u / (1 - k u), u = 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms,
/// 2nd edition, lemma 3.1 and section 4.2). Inf where k u >= 1: nothing is promised. Underflow is
/// not covered. Throws ArgumentError where n is negative or lanes below one.
double float32_sum_error(std::int64_t n, std::int64_t lanes);

/// The tolerance, in ulps of the output dtype, for a result that is correct to `relative_error`
/// before its one rounding: an ulp is at least 2^-p of the value (p significand bits), so
/// relative_error * 2^p, plus 1/2 for the rounding; plus 1 where the error passes an ulp, since it
/// may then carry the result past a power of two, where half an ulp is twice as long. Throws
/// ArgumentError for an integer dtype.
double rounding_tolerance(Dtype dtype, double relative_error);

}  // namespace opbook
