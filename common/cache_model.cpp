#include "common/cache_model.hpp"

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

}  // namespace opbook
