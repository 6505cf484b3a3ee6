#pragma once

#include <cstdint>
#include <initializer_list>

#include "common/error.hpp"

namespace opbook {

/// Product of 64-bit sizes; throws ArgumentError where it passes 2^63 - 1. Byte and FLOP counts go
/// through here, so that a ledger is either exact or refused, never wrapped.
inline std::int64_t checked_mul(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) {
      throw ArgumentError("sizes: their product passes 2^63 - 1; allowed: smaller sizes");
    }
  }
  return product;
}

/// Sum of 64-bit sizes; throws ArgumentError where it passes 2^63 - 1.
inline std::int64_t checked_add(std::initializer_list<std::int64_t> terms) {
  std::int64_t sum = 0;
  for (const std::int64_t term : terms) {
    if (__builtin_add_overflow(sum, term, &sum)) {
      throw ArgumentError("sizes: their sum passes 2^63 - 1; allowed: smaller sizes");
    }
  }
  return sum;
}

}  // namespace opbook
