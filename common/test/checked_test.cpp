#include "common/checked.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <limits>

using opbook::ArgumentError;
using opbook::checked_add;
using opbook::checked_mul;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t two_31 = std::int64_t{1} << 31;
constexpr std::int64_t two_32 = std::int64_t{1} << 32;

TEST_CASE("sizes multiply and add exactly up to 2^63 - 1") {
  CHECK(checked_mul({}) == 1);
  CHECK(checked_mul({7}) == 7);
  CHECK(checked_mul({0, largest}) == 0);
  CHECK(checked_mul({two_31, two_31 - 1, 2}) == two_32 * (two_31 - 1));
  CHECK(checked_mul({largest, 1}) == largest);
  CHECK(checked_mul({7, 7, 73, 127, 337, 92737, 649657}) == largest);  // its prime factors

  CHECK(checked_add({}) == 0);
  CHECK(checked_add({2, 3, 4}) == 9);
  CHECK(checked_add({largest - 1, 1}) == largest);
}

TEST_CASE("a product or a sum beyond 2^63 - 1 is refused, never wrapped") {
  CHECK_THROWS_AS(checked_mul({two_31, two_32}), ArgumentError);
  CHECK_THROWS_AS(checked_mul({largest, 2}), ArgumentError);
  CHECK_THROWS_AS(checked_mul({2, 3, largest}), ArgumentError);
  CHECK_THROWS_AS(checked_mul({two_32, two_32}), ArgumentError);  // wraps to 0
  CHECK_THROWS_AS(checked_add({largest, 1}), ArgumentError);
  CHECK_THROWS_AS(checked_add({1, 1, largest - 1}), ArgumentError);

  CHECK_THROWS_WITH(checked_mul({largest, 2}),
                    "sizes: their product passes 2^63 - 1; allowed: smaller sizes");
  CHECK_THROWS_WITH(checked_add({largest, 1}),
                    "sizes: their sum passes 2^63 - 1; allowed: smaller sizes");
}
