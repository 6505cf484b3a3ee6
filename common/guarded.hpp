#pragma once

#include <cstddef>
#include <cstdint>

namespace opbook {

/// At which end of its pages a piece of memory lies, right beside the guard.
enum class Edge { front, back };

/// Zeroed memory between two guards of 16 MiB that nothing survives touching: a stray access ends
/// in a SIGSEGV whose address tells where it went. Shared with the processes that are forked while
/// it exists, so that what a child writes is there after it is gone.
class GuardedMemory {
 public:
  /// Throws std::bad_alloc where the system gives no memory.
  GuardedMemory(std::int64_t bytes, Edge edge);
  ~GuardedMemory();
  GuardedMemory(GuardedMemory&& other) noexcept;
  GuardedMemory& operator=(GuardedMemory&&) = delete;

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  std::int64_t bytes() const { return bytes_; }

  /// True for an address in one of its guards.
  bool guards(const void* address) const;

 private:
  std::byte* mapping_ = nullptr;
  std::int64_t mapped_ = 0;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  std::int64_t pages_ = 0;  // bytes of the pages between the guards
};

}  // namespace opbook
