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

/// The traffic of one trace with a cache of every size at once. The cache is LruCache's, of 64-byte
/// lines; writing a line does not fetch it, a dirty line is written back when it is evicted, and
/// what is dirty at the end is written back then.
///
/// An access hits in a cache of C lines if fewer than C other lines were touched since the line was
/// touched last: its stack distance (Mattson et al., IBM Systems Journal 9(2), 1970). One pass
/// collects the distances; every size is then a sum over them.
class CacheCurve {
 public:
  static constexpr std::int64_t line_bytes = 64;

  /// Lines are numbered by the caller, densely from 0.
  void read(std::int64_t line);
  void write(std::int64_t line);

  struct Traffic {
    std::int64_t read_bytes = 0;
    std::int64_t write_bytes = 0;
    std::int64_t moved_bytes() const { return read_bytes + write_bytes; }
  };
  /// Whole lines between memory and a cache of this many bytes.
  Traffic traffic(std::int64_t cache_bytes) const;

 private:
  struct Line {
    std::int64_t last = none;      // position in time of its last access
    std::int64_t farthest = none;  // largest distance since it was last written, if it ever was
  };
  static constexpr std::int64_t none = -1;
  static constexpr std::int64_t cold = -2;  // the distance of a first access

  std::int64_t access(std::int64_t line);
  void mark(std::int64_t position, int change);
  std::int64_t marks_up_to(std::int64_t position) const;
  void renumber();

  // Time runs over positions 0, 1, 2, ...; the last access of each line is marked. The marks are
  // counted by a Fenwick tree; when positions run out, the marks are moved together.
  std::vector<std::int32_t> tree_;
  std::int64_t now_ = 0;
  std::int64_t marked_ = 0;
  std::vector<Line> lines_;
  std::int64_t cold_reads_ = 0;
  std::int64_t first_writes_ = 0;
  std::vector<std::int64_t> reads_at_;        // reads by distance
  std::vector<std::int64_t> write_backs_at_;  // writes after the first, by farthest distance
};

}  // namespace opbook
