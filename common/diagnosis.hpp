#pragma once

#include <string>
#include <vector>

#include "common/problem.hpp"

namespace opbook {

/// A mistake that people make, and what an output is with it.
struct Slip {
  std::string text;  ///< names the mistake: "eps is left out"
  Check check;
};

/// What is wrong with a float32 matrix or vector that failed its check, for its author: what was
/// never written, else the slip that explains all of it, else where it is NaN or wrong; then the
/// first wrong element. One or two lines.
std::string diagnose(const Array& actual, const Check& check, const std::vector<Slip>& slips);

}  // namespace opbook
