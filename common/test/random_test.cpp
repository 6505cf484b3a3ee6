#include "common/random.hpp"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <vector>

using namespace opbook;
using Catch::Matchers::WithinAbs;

namespace {

using Fill = std::function<void(Array&, std::uint64_t)>;

const std::vector<Fill>& fills() {
  static const std::vector<Fill> all = {
      [](Array& array, std::uint64_t seed) { fill_normal_like(array, seed, 2.0f); },
      fill_activation,
      [](Array& array, std::uint64_t seed) { fill_uniform(array, seed, -1.0f, 3.0f); },
      fill_weight,
  };
  return all;
}

bool same_bytes(const Array& a, const Array& b) {
  return a.bytes() == b.bytes() &&
         std::memcmp(a.raw(), b.raw(), static_cast<std::size_t>(a.bytes())) == 0;
}

double mean(const Array& array, std::int64_t begin, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = begin; i < begin + count; ++i) sum += array.value(i);
  return sum / static_cast<double>(count);
}

double deviation(const Array& array, std::int64_t begin, std::int64_t count) {
  double squares = 0;
  for (std::int64_t i = begin; i < begin + count; ++i) squares += array.value(i) * array.value(i);
  return std::sqrt(squares / static_cast<double>(count));
}

}  // namespace

TEST_CASE("the random bits of a stream never change", "[random]") {
  // Recorded inputs depend on them: computed apart, from the definitions of FNV-1a and splitmix64.
  REQUIRE(random_bits(0, "", 0) == 0x0D7293FE83B1A2BC);
  REQUIRE(random_bits(1, "x", 0) == 0x59A11D765241E6D1);
  REQUIRE(random_bits(1, "x", 12345678901) == 0xF7DBE568ADB51D60);
  REQUIRE(random_bits(0xFFFFFFFFFFFFFFFF, "weight", 7) == 0xE06A3362B7AA9892);
}

TEST_CASE("the values of a filled array never change", "[random]") {
  Array x("x", Dtype::float32, {2, 3});
  fill_normal_like(x, 1, 0.5f);
  const std::uint32_t normal[] = {0xBE8A45ED, 0xBDA39FEB, 0x3D4721B9,
                                  0x3D73D71D, 0xBE32C0C9, 0xBE0B3337};
  for (int i = 0; i < 6; ++i)
    REQUIRE(std::bit_cast<std::uint32_t>(x.data<float>()[i]) == normal[i]);
  fill_activation(x, 1);
  const std::uint32_t activation[] = {0xBD93B4EA, 0xBCAEC9AF, 0x3C54B7A1,
                                      0x3CA65769, 0xBD73E19D, 0xBD3DEAD1};
  for (int i = 0; i < 6; ++i) {
    REQUIRE(std::bit_cast<std::uint32_t>(x.data<float>()[i]) == activation[i]);
  }
  fill_weight(x, 1);
  const std::uint32_t weight[] = {0x3F59A11D, 0x3F00D8FC, 0x3F39FC7C,
                                  0x3F9F24FE, 0x3F7B6F4A, 0x3FA6B264};
  for (int i = 0; i < 6; ++i)
    REQUIRE(std::bit_cast<std::uint32_t>(x.data<float>()[i]) == weight[i]);
}

TEST_CASE("the same seed and name give the same bits, with any number of threads", "[random]") {
  const int threads = omp_get_max_threads();
  for (const Dtype dtype : float_dtypes) {
    for (const Fill& fill : fills()) {
      Array first("x", dtype, {300, 257});
      Array second("x", dtype, {300, 257}, 1);
      omp_set_num_threads(1);
      fill(first, 42);
      omp_set_num_threads(3);
      fill(second, 42);
      omp_set_num_threads(threads);
      REQUIRE(same_bytes(first, second));
      REQUIRE(first.guards_intact());
      REQUIRE(second.guards_intact());
    }
  }
}

TEST_CASE("another seed or another name gives other values", "[random]") {
  for (const Fill& fill : fills()) {
    Array x("x", Dtype::float32, {1000}), reseeded("x", Dtype::float32, {1000});
    Array renamed("y", Dtype::float32, {1000});
    fill(x, 1);
    fill(reseeded, 2);
    fill(renamed, 1);
    int equal = 0;
    for (std::int64_t i = 0; i < 1000; ++i) {
      equal += x.value(i) == reseeded.value(i);
      equal += x.value(i) == renamed.value(i);
    }
    // The commonest value of the bell has probability 2/3 * 2^-16.
    REQUIRE(equal < 5);
  }
}

TEST_CASE("every element of an array is written, NaN nowhere", "[random]") {
  for (const Dtype dtype : float_dtypes) {
    for (const Fill& fill : fills()) {
      Array array("x", dtype, {3, 1, 123});
      fill(array, 5);
      for (std::int64_t i = 0; i < array.elements(); ++i) REQUIRE(std::isfinite(array.value(i)));
    }
  }
}

TEST_CASE("normal-like values have mean zero, the deviation asked for and bounded tails",
          "[random]") {
  constexpr std::int64_t count = 1 << 20;
  Array x("x", Dtype::float32, {count});
  fill_normal_like(x, 3, 2.0f);
  // Five standard errors: of a mean, sigma / sqrt(n); of a mean square, sqrt(kurtosis - 1) sigma^2
  // / sqrt(n), with kurtosis 2.7 for a sum of four uniforms: half of it for the deviation.
  REQUIRE_THAT(mean(x, 0, count), WithinAbs(0, 5 * 2.0 / 1024));
  REQUIRE_THAT(deviation(x, 0, count), WithinAbs(2.0, 5 * 0.5 * std::sqrt(1.7) * 2.0 / 1024));
  std::int64_t within_one = 0, beyond = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    beyond += !(std::abs(x.value(i)) <= 2 * 3.47);
    within_one += std::abs(x.value(i)) < 2.0;
  }
  REQUIRE(beyond == 0);
  // Irwin-Hall of four within one deviation: 0.6693, by its piecewise polynomial
  // distribution.
  REQUIRE_THAT(static_cast<double>(within_one) / count, WithinAbs(0.6693, 5 * 0.48 / 1024));
}

TEST_CASE("activation rows differ in scale, over six octaves, by no powers of two", "[random]") {
  constexpr std::int64_t rows = 256, cols = 4096;
  Array x("x", Dtype::float32, {rows, cols});
  fill_activation(x, 9);
  std::vector<double> deviations;
  for (std::int64_t row = 0; row < rows; ++row) {
    deviations.push_back(deviation(x, row * cols, cols));
  }
  // A row's own deviation is uncertain by sqrt(1.7) / (2 sqrt(4096)) = 1 %: five times that.
  std::set<int> octaves;
  for (const double d : deviations) {
    REQUIRE(d > 0.125 * 0.95);
    REQUIRE(d < 8 * 1.05);
    octaves.insert(std::ilogb(std::clamp(d, 0.125, 7.99)));
  }
  REQUIRE(octaves.size() == 6);
  std::sort(deviations.begin(), deviations.end());
  // A quarter of the rows on each side: two of the six octaves hold a third.
  REQUIRE(deviations[rows / 4] < 1.0);
  REQUIRE(deviations[3 * rows / 4] > 1.0);
}

TEST_CASE("a row of an activation does not depend on how many rows follow it", "[random]") {
  Array tall("x", Dtype::bfloat16, {8, 100});
  Array flat("x", Dtype::bfloat16, {3, 100});
  fill_activation(tall, 4);
  fill_activation(flat, 4);
  REQUIRE(std::memcmp(tall.raw(), flat.raw(), static_cast<std::size_t>(flat.bytes())) == 0);
}

TEST_CASE("uniform values fill their interval evenly and never leave it", "[random]") {
  constexpr std::int64_t count = 1 << 18;
  Array x("x", Dtype::float32, {count});
  fill_uniform(x, 8, -1.0f, 3.0f);
  std::vector<int> histogram(16);
  int outside = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    outside += !(x.value(i) >= -1.0 && x.value(i) <= 3.0);
    ++histogram[static_cast<std::size_t>(std::min(15.0, (x.value(i) + 1.0) * 4.0))];
  }
  REQUIRE(outside == 0);
  // Each bin: binomial, n = 2^18, p = 1/16: deviation sqrt(n p (1 - p)) = 124.
  for (const int bin : histogram) REQUIRE_THAT(bin, WithinAbs(count / 16.0, 5 * 124));

  Array narrow("x", Dtype::float32, {1000});
  fill_uniform(narrow, 8, 1.0f, std::nextafter(1.0f, 2.0f));
  for (std::int64_t i = 0; i < 1000; ++i) {
    REQUIRE(narrow.value(i) >= 1.0);
    REQUIRE(narrow.value(i) <= 1.0 + 0x1p-23);
  }
}

TEST_CASE("a weight lies around one and is hardly ever a power of two", "[random]") {
  Array w("w", Dtype::bfloat16, {4096});
  fill_weight(w, 11);
  int powers_of_two = 0;
  for (std::int64_t i = 0; i < 4096; ++i) {
    REQUIRE(w.value(i) >= 0.5);
    REQUIRE(w.value(i) <= 1.5);
    int exponent;
    powers_of_two += std::frexp(w.value(i), &exponent) == 0.5;
  }
  // 0.5 and 1 own (2^-9 + 2^-9 + 2^-8) of the interval: 32 are expected; twice that is six
  // deviations.
  REQUIRE(powers_of_two < 64);
  REQUIRE_THAT(mean(w, 0, 4096), WithinAbs(1.0, 5 * 0.289 / 64));
}

TEST_CASE("empty arrays are filled with nothing", "[random]") {
  for (const Fill& fill : fills()) {
    Array no_rows("x", Dtype::float16, {0, 8}), no_cols("x", Dtype::float16, {8, 0});
    Array scalar("x", Dtype::float16, {});
    fill(no_rows, 1);
    fill(no_cols, 1);
    fill(scalar, 1);
    REQUIRE(no_rows.guards_intact());
    REQUIRE(no_cols.guards_intact());
    REQUIRE(std::isfinite(scalar.value(0)));
  }
}

TEST_CASE("integer arrays, and scales and bounds that are no use, are refused", "[random]") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  Array positions("positions", Dtype::int64, {4});
  for (const Fill& fill : fills()) REQUIRE_THROWS_AS(fill(positions, 1), ArgumentError);
  Array x("x", Dtype::float32, {4});
  for (const float scale : {0.0f, -1.0f, inf, nan}) {
    REQUIRE_THROWS_AS(fill_normal_like(x, 1, scale), ArgumentError);
  }
  REQUIRE_THROWS_AS(fill_uniform(x, 1, 1.0f, 1.0f), ArgumentError);
  REQUIRE_THROWS_AS(fill_uniform(x, 1, 2.0f, 1.0f), ArgumentError);
  REQUIRE_THROWS_AS(fill_uniform(x, 1, nan, 1.0f), ArgumentError);
  REQUIRE_THROWS_AS(fill_uniform(x, 1, 0.0f, nan), ArgumentError);
  REQUIRE_THROWS_AS(fill_uniform(x, 1, -inf, 0.0f), ArgumentError);
  REQUIRE_THROWS_AS(fill_uniform(x, 1, -3e38f, 3e38f), ArgumentError);
  for (std::int64_t i = 0; i < 4; ++i) REQUIRE(std::isnan(x.value(i)));
}
