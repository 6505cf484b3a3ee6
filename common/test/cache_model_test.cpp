#include "common/cache_model.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <deque>
#include <vector>

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

TEST_CASE("the curve of two passes over four lines bends where the cache holds all four") {
  CacheCurve curve;
  for (int pass = 0; pass < 2; ++pass) {
    for (int line = 0; line < 4; ++line) curve.read(line);
  }
  for (int lines = 0; lines < 4; ++lines) CHECK(curve.traffic(lines * 64).read_bytes == 8 * 64);
  CHECK(curve.traffic(4 * 64).read_bytes == 4 * 64);
  CHECK(curve.traffic(4 * 64).write_bytes == 0);
}

TEST_CASE("a line that is written and read while it is held costs one write back, at the end") {
  CacheCurve curve;
  curve.write(0);
  curve.read(0);
  curve.write(0);
  CHECK(curve.traffic(64).read_bytes == 0);
  CHECK(curve.traffic(64).write_bytes == 64);
}

TEST_CASE("a dirty line that is evicted is written back, and fetched when it is read") {
  CacheCurve curve;
  curve.write(0);
  curve.read(1);
  curve.read(0);
  curve.write(0);
  CHECK(curve.traffic(64).read_bytes == 2 * 64);
  CHECK(curve.traffic(64).write_bytes == 2 * 64);
  CHECK(curve.traffic(128).read_bytes == 64);
  CHECK(curve.traffic(128).write_bytes == 64);
}

TEST_CASE("the curve agrees at every size with a cache that is played through") {
  constexpr std::int64_t lines = 60;
  struct Access {
    std::int64_t line;
    bool write;
  };
  std::vector<Access> trace;
  CacheCurve curve;
  std::uint64_t state = 5;
  for (int step = 0; step < 6000; ++step) {  // more than the curve's positions: it renumbers
    state = state * 6364136223846793005u + 1442695040888963407u;
    // Mostly near the place of the step, so that distances of all sizes occur.
    const auto jump = static_cast<std::int64_t>((state >> 33) % 25);
    trace.push_back({(step / 50 + jump * jump) % lines, (state >> 60) % 3 == 0});
    trace.back().write ? curve.write(trace.back().line) : curve.read(trace.back().line);
  }
  for (std::int64_t capacity = 1; capacity <= lines + 1; ++capacity) {
    struct Held {
      std::int64_t line;
      bool dirty;
    };
    std::deque<Held> newest_first;
    std::int64_t fetched = 0, written_back = 0;
    for (const Access& access : trace) {
      const auto found = std::find_if(newest_first.begin(), newest_first.end(),
                                      [&](const Held& held) { return held.line == access.line; });
      bool dirty = access.write;
      if (found != newest_first.end()) {
        dirty |= found->dirty;
        newest_first.erase(found);
      } else if (!access.write) {
        ++fetched;
      }
      newest_first.push_front({access.line, dirty});
      if (static_cast<std::int64_t>(newest_first.size()) > capacity) {
        written_back += newest_first.back().dirty;
        newest_first.pop_back();
      }
    }
    for (const Held& held : newest_first) written_back += held.dirty;
    const CacheCurve::Traffic traffic = curve.traffic(capacity * 64);
    REQUIRE(traffic.read_bytes == fetched * 64);
    REQUIRE(traffic.write_bytes == written_back * 64);
  }
}
