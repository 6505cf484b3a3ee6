#pragma once

#include <cstdint>

namespace opbook {

/// Counts the memory that C++ code allocates (operator new, and so std::vector) while it exists: an
/// exercise's own scratch. A program that links this has its operator new replaced; there is one
/// count at a time, and it is right where one thread allocates. Under AddressSanitizer, whose own
/// allocator must not be replaced, it stays zero.
class ScratchCount {
 public:
  ScratchCount();
  ~ScratchCount();
  ScratchCount(const ScratchCount&) = delete;
  ScratchCount& operator=(const ScratchCount&) = delete;

  std::int64_t most_bytes() const;  ///< the most that was held at once
};

}  // namespace opbook
