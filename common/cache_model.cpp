#include "common/cache_model.hpp"

#include <algorithm>
#include <numeric>

namespace opbook {

void LruCache::resize(std::int64_t count) {
  if (count > static_cast<std::int64_t>(links_.size())) links_.resize(count);
}

bool LruCache::touch(std::int64_t line) {
  if (line == newest_) return true;
  const bool hit = links_[line].newer != absent;
  if (hit) {
    unlink(line);
  } else if (resident_ == capacity_) {
    const std::int64_t victim = oldest_;
    unlink(victim);
    links_[victim] = {};
  } else {
    ++resident_;
  }
  push_front(line);
  return hit;
}

void LruCache::clear() {
  for (std::int64_t line = newest_; line != none;) {
    const std::int64_t older = links_[line].older;
    links_[line] = {};
    line = older;
  }
  newest_ = oldest_ = none;
  resident_ = 0;
}

void LruCache::unlink(std::int64_t line) {
  const Links at = links_[line];
  (at.newer == none ? newest_ : links_[at.newer].older) = at.older;
  (at.older == none ? oldest_ : links_[at.older].newer) = at.newer;
}

void LruCache::push_front(std::int64_t line) {
  links_[line] = {none, newest_};
  (newest_ == none ? oldest_ : links_[newest_].newer) = line;
  newest_ = line;
}

void CacheCurve::read(std::int64_t line) {
  const std::int64_t distance = access(line);
  if (distance == cold) {
    ++cold_reads_;
    return;
  }
  if (distance >= static_cast<std::int64_t>(reads_at_.size())) reads_at_.resize(distance + 1);
  ++reads_at_[distance];
  Line& at = lines_[line];
  if (at.farthest != none) at.farthest = std::max(at.farthest, distance);
}

void CacheCurve::write(std::int64_t line) {
  const std::int64_t distance = access(line);
  Line& at = lines_[line];
  if (at.farthest == none) {
    ++first_writes_;
  } else {
    // A cache too small for the farthest reuse since the last write had evicted the dirty line.
    const std::int64_t farthest = std::max(at.farthest, distance);
    if (farthest >= static_cast<std::int64_t>(write_backs_at_.size())) {
      write_backs_at_.resize(farthest + 1);
    }
    ++write_backs_at_[farthest];
  }
  at.farthest = 0;
}

CacheCurve::Traffic CacheCurve::traffic(std::int64_t cache_bytes) const {
  const std::int64_t capacity = cache_bytes / line_bytes;
  const auto missed = [&](const std::vector<std::int64_t>& by_distance) {
    const auto from = std::min<std::int64_t>(capacity, by_distance.size());
    return std::accumulate(by_distance.begin() + from, by_distance.end(), std::int64_t{0});
  };
  return {(cold_reads_ + missed(reads_at_)) * line_bytes,
          (first_writes_ + missed(write_backs_at_)) * line_bytes};
}

/// The number of other lines touched since `line` was, or `cold`.
std::int64_t CacheCurve::access(std::int64_t line) {
  if (line >= static_cast<std::int64_t>(lines_.size())) lines_.resize(line + 1);
  if (now_ == static_cast<std::int64_t>(tree_.size())) renumber();
  Line& at = lines_[line];
  std::int64_t distance = cold;
  if (at.last != none) {
    distance = marked_ - marks_up_to(at.last);
    if (distance == 0) return 0;  // the same line again: its mark is the latest already
    mark(at.last, -1);
  }
  at.last = now_++;
  mark(at.last, +1);
  return distance;
}

void CacheCurve::mark(std::int64_t position, int change) {
  marked_ += change;
  for (std::int64_t i = position + 1; i <= static_cast<std::int64_t>(tree_.size()); i += i & -i) {
    tree_[i - 1] += change;
  }
}

std::int64_t CacheCurve::marks_up_to(std::int64_t position) const {
  std::int64_t count = 0;
  for (std::int64_t i = position + 1; i > 0; i -= i & -i) count += tree_[i - 1];
  return count;
}

void CacheCurve::renumber() {
  std::vector<std::int64_t> touched;  // in the order of their last access
  for (std::size_t line = 0; line < lines_.size(); ++line) {
    if (lines_[line].last != none) touched.push_back(static_cast<std::int64_t>(line));
  }
  std::sort(touched.begin(), touched.end(),
            [&](std::int64_t a, std::int64_t b) { return lines_[a].last < lines_[b].last; });
  // At least as many free positions as lines, so that moving costs little for each access.
  tree_.assign(std::max<std::size_t>(1024, 4 * lines_.size()), 0);
  now_ = marked_ = 0;
  for (const std::int64_t line : touched) {
    lines_[line].last = now_++;
    mark(lines_[line].last, +1);
  }
}

}  // namespace opbook
