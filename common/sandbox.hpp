#pragma once

// Runs code that may do anything in a process of its own, with limits on its time and memory: it
// can neither stop nor damage the process that asked.

#include <cstdint>
#include <functional>
#include <string>

namespace opbook {

struct Limits {
  double seconds = 10;
  /// Beyond what the process has already. Not enforced under AddressSanitizer, which maps most of
  /// the address space for itself.
  std::int64_t memory_bytes = std::int64_t{1} << 30;
};

/// How a child ended.
struct ChildEnd {
  enum class How {
    returned,
    not_started,    ///< threw NotStarted
    threw,          ///< threw something else; text: what it said
    bad_access,     ///< touched memory that is not its own; see address and wrote
    died,           ///< of another signal, or ended the program; text: of what
    out_of_memory,  ///< asked for more than the limit
    out_of_time,
  };
  How how = How::returned;
  std::string text;
  const void* address = nullptr;
  bool wrote = false;  ///< known on x86-64; false elsewhere
};

/// Runs `body` in a child. Nothing comes back but how it ended and what it wrote to memory shared
/// with it (guarded.hpp). OpenMP runs on one thread there. Throws std::system_error where there can
/// be no child.
ChildEnd run_in_child(const std::function<void()>& body, const Limits& limits = {});

}  // namespace opbook
