#pragma once

// The one header that an exercise includes: a few of the standard library's, and what a skeleton
// needs to say that it is one. The tensors that an exercise is called with are views:
//
//   x.rows(), x.cols()   the shape of a matrix; a vector has w.size()
//   x(i, j), w(j)        an element of an input: a float
//   y(i, j) = v          an element of an output: assign to it, or use += -= *= /=
//
// The same source is compiled twice: for views that are plain memory, which is fast, and for views
// that count every byte they move.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace opbook {

/// What a skeleton throws.
struct NotStarted : std::logic_error {
  NotStarted() : std::logic_error("not started") {}
};

/// Takes the arguments of a function that is still to be written, so that none of them is unused.
template <class... Arguments>
[[noreturn]] void not_started(const Arguments&...) {
  throw NotStarted();
}

}  // namespace opbook
