#include "common/timing.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "common/error.hpp"

using namespace opbook;
using Catch::Matchers::WithinULP;

TEST_CASE("quartiles lie between samples in proportion") {
  const std::vector<double> samples = {5, 1, 4, 2};
  const Timing timing = summarise(samples);
  CHECK_THAT(timing.median_us, WithinULP(3.0, 1));
  CHECK_THAT(timing.p25_us, WithinULP(1.75, 1));
  CHECK_THAT(timing.p75_us, WithinULP(4.25, 1));
  CHECK(timing.n == 4);
  CHECK_THROWS_AS(summarise({}), ArgumentError);
}

TEST_CASE("a median's bounds drop as many order statistics as the binomial table says") {
  // Nonparametric 95 % bounds of a median: ranks 1 and n for n = 6 to 8, 2 and 10 for n = 11 (of
  // tables), everything below six samples.
  const auto ranks = [](int n) {
    std::vector<double> values;
    for (int i = 1; i <= n; ++i) values.push_back(i);
    const Bounded bounds = bounded_median(values);
    return std::pair(bounds.low, bounds.high);
  };
  CHECK(ranks(1) == std::pair(1.0, 1.0));
  CHECK(ranks(5) == std::pair(1.0, 5.0));
  CHECK(ranks(8) == std::pair(1.0, 8.0));
  CHECK(ranks(9) == std::pair(2.0, 8.0));
  CHECK(ranks(11) == std::pair(2.0, 10.0));
  CHECK(ranks(20) == std::pair(6.0, 15.0));
  CHECK(ranks(100) == std::pair(40.0, 61.0));
}

TEST_CASE("a share of the roof is the median of paired ratios, not the ratio of medians") {
  const std::vector<double> roof = {10, 20, 30};  // the machine slows down; both feel it
  const std::vector<double> op = {20, 40, 60};
  CHECK_THAT(share_of_roof(roof, op).median, WithinULP(0.5, 1));
  const std::vector<double> short_one = {1, 2};
  CHECK_THROWS_AS(share_of_roof(roof, short_one), ArgumentError);
}

TEST_CASE("contenders take turns, each run prepared") {
  std::vector<char> order;
  const std::vector<std::function<void()>> contenders = {[&] { order.push_back('a'); },
                                                         [&] { order.push_back('b'); }};
  const TimingOptions options{
      .warmup = 1, .min_samples = 3, .max_samples = 3, .settled = 0, .max_seconds = 1};
  const auto samples = time_in_turn(contenders, [&] { order.push_back('p'); }, options);
  CHECK(std::string(order.begin(), order.end()) ==
        "ab"
        "papb"
        "papb"
        "papb");
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].size() == 3);
  CHECK(samples[1].size() == 3);
}

TEST_CASE("sampling ends at the time limit, but not before the least number of samples") {
  const std::vector<std::function<void()>> contenders = {[] {}};
  const TimingOptions options{
      .warmup = 0, .min_samples = 5, .max_samples = 1000, .settled = -1, .max_seconds = 0};
  CHECK(time_in_turn(contenders, [] {}, options)[0].size() == 5);
}

TEST_CASE("the working set is four caches or a quarter of memory, whichever is less") {
  CHECK(cold_working_set_bytes(32, 10000) == 128);
  CHECK(cold_working_set_bytes(32, 400) == 100);
  CHECK_THROWS_AS(cold_working_set_bytes(0, 400), ArgumentError);
}
