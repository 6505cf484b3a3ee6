#include "common/cache_model.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <deque>

using namespace opbook;

TEST_CASE("a cache of two lines evicts the one that was used least recently") {
  LruCache cache(2);
  cache.resize(3);
  CHECK_FALSE(cache.touch(0));
  CHECK_FALSE(cache.touch(1));
  CHECK(cache.touch(0));        // now 1 is the older
  CHECK_FALSE(cache.touch(2));  // and goes
  CHECK(cache.touch(0));
  CHECK_FALSE(cache.touch(1));
}

TEST_CASE("an emptied cache holds nothing") {
  LruCache cache(4);
  cache.resize(2);
  cache.touch(0);
  cache.touch(1);
  cache.clear();
  CHECK_FALSE(cache.touch(0));
  CHECK_FALSE(cache.touch(1));
  CHECK(cache.touch(0));
}

TEST_CASE("the cache agrees with a list kept in order of use") {
  constexpr std::int64_t lines = 23, capacity = 7;
  LruCache cache(capacity);
  cache.resize(lines);
  std::deque<std::int64_t> newest_first;
  std::uint64_t state = 1;
  for (int step = 0; step < 20000; ++step) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const std::int64_t line = static_cast<std::int64_t>((state >> 33) % lines);
    const auto found = std::find(newest_first.begin(), newest_first.end(), line);
    const bool hit = found != newest_first.end();
    if (hit) newest_first.erase(found);
    newest_first.push_front(line);
    if (newest_first.size() > capacity) newest_first.pop_back();
    REQUIRE(cache.touch(line) == hit);
  }
}
