#pragma once

// The operators that rotate, ready to be run: entries of the table in operators.cpp.

#include "ch13_norm_rope/arguments.hpp"
#include "common/problem.hpp"

namespace opbook::ch13 {

// Each throws ArgumentError as its case in ledger.hpp does. Tables of cosines and sines are those
// of theta 10000, row by position.

Problem rope_problem(const Arguments& arguments);

Problem rms_norm_rope_problem(const Arguments& arguments);

/// Throws for codes other than e4m3 too: the book's 16-bit ones are on paper only.
Problem rms_norm_rope_quant_problem(const Arguments& arguments);

}  // namespace opbook::ch13
