#pragma once

// The book's section 2.2: a chain of multiply-adds x <- a * x + b, k times, element by element.
// 2 k n FLOPs; 2 n e bytes fused, so that k sets the arithmetic intensity: k / e FLOP/byte. As k
// kernels 2 k n e bytes, 1 / e FLOP/byte however long it is.
//
// A step is one fused multiply-add in float32, 2 FLOPs, rounded once. The unfused plan rounds each
// step to T, since it stores it; the fused one keeps float32 from step to step and rounds to T
// once, at the end. Overflow, underflow and NaN are what IEEE arithmetic makes of these steps.

#include <cstdint>
#include <string>
#include <type_traits>

#include "common/checks.hpp"
#include "common/cuda/device.hpp"
#include "common/error.hpp"
#include "common/rows.hpp"

namespace opbook::ch02 {

/// What the chain asks of its arguments, wherever it runs. Throws ArgumentError.
template <class T>
void check_chain(Row<const T> x, std::int64_t k, Row<T> y) {
  require_size("y", y, x.size);
  require_no_partial_overlap("y", one_row(y), "x", one_row(x));
  if (k < 1) {
    throw ArgumentError("k: got " + std::to_string(k) + "; allowed: a whole number above zero");
  }
}

namespace cpu {

/// One kernel: reads x once and writes y once. x, y: [n], any base; y may be x. a, b: any float32.
/// Backend is Fast, or Metered to count. Throws ArgumentError for k below 1, sizes that disagree,
/// and y that partly overlaps x. n = 0 does nothing.
template <class Backend, class T>
void multiply_add_chain(Backend& backend, Row<const std::type_identity_t<T>> x, float a, float b,
                        std::int64_t k, Row<T> y);

/// The same as k kernels: the first from x to y, the others from y to y. Errors as above.
template <class Backend, class T>
void multiply_add_chain_unfused(Backend& backend, Row<const std::type_identity_t<T>> x, float a,
                                float b, std::int64_t k, Row<T> y);

}  // namespace cpu

namespace gpu {

using opbook::gpu::Stream;

/// The same on a CUDA device: all memory is the device's, the work is queued on `stream`. Throws
/// besides CudaError where a launch fails, and DeviceUnavailable without a CUDA compiler.
template <class T>
void multiply_add_chain(Stream stream, Row<const std::type_identity_t<T>> x, float a, float b,
                        std::int64_t k, Row<T> y);
template <class T>
void multiply_add_chain_unfused(Stream stream, Row<const std::type_identity_t<T>> x, float a,
                                float b, std::int64_t k, Row<T> y);

}  // namespace gpu
}  // namespace opbook::ch02
