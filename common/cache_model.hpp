#pragma once

#include <cstdint>
#include <vector>

namespace opbook {

/// A fully associative cache of 64-byte lines that evicts the least recently used one. Lines are
/// numbered by the caller, densely from 0.
class LruCache {
 public:
  explicit LruCache(std::int64_t capacity_lines) : capacity_(capacity_lines) {}

  /// Makes lines 0 .. count - 1 known.
  void resize(std::int64_t count);
  /// Brings `line` in as the most recently used; true if it was there already.
  bool touch(std::int64_t line);
  /// Empties the cache.
  void clear();

 private:
  void unlink(std::int64_t line);
  void push_front(std::int64_t line);

  static constexpr std::int64_t none = -1;
  static constexpr std::int64_t absent = -2;
  struct Links {
    std::int64_t newer = absent;  // `absent` marks a line that is not in the cache
    std::int64_t older = absent;
  };
  std::int64_t capacity_;
  std::int64_t resident_ = 0;
  std::int64_t newest_ = none;
  std::int64_t oldest_ = none;
  std::vector<Links> links_;
};

}  // namespace opbook
