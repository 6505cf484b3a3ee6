#pragma once

#include <stdexcept>

namespace opbook {

/// An argument that the callee refuses. The text names the argument, its value and what is allowed.
/// Programs turn it into one line on stderr and exit code 2.
struct ArgumentError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// A device that was asked for and is not there (exit code 3).
struct DeviceUnavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A check that failed: wrong values, wrong bytes, damaged guard bands (exit code 1).
struct CheckFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A CUDA call or kernel that failed (exit code 1). The text names it and says what CUDA says.
struct CudaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace opbook
