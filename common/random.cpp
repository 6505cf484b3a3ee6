#include "common/random.hpp"

#include <fmt/format.h>

#include <cmath>
#include <vector>

namespace opbook {
namespace {

// The finalizer of splitmix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number
// generators"; constants by Stafford): each output bit depends on each input bit.
constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

constexpr std::uint64_t golden_gamma = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio, odd

constexpr std::uint64_t stream_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return mix(hash ^ mix(seed + golden_gamma));
}

constexpr std::uint64_t at(std::uint64_t key, std::uint64_t index) {
  return mix(key + (index + 1) * golden_gamma);
}

// Four uniform 16-bit integers, summed and centred: whole, within +-131070, mean zero.
constexpr std::int32_t bell(std::uint64_t bits) {
  const std::uint64_t sum =
      (bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) + ((bits >> 32) & 0xFFFF) + (bits >> 48);
  return static_cast<std::int32_t>(sum) - 2 * 0xFFFF;
}

// Its standard deviation: sqrt(4 (2^32 - 1) / 12).
constexpr float bell_deviation = 37837.227f;

// Between 2^-3 and 2^3: a whole exponent, and a significand between 1 and 2 that is never 1.
float row_deviation(std::uint64_t bits) {
  const int exponent = static_cast<int>((bits >> 32) % 6) - 3;
  const auto fraction = static_cast<std::int32_t>(bits & 0x7FFFFF) | 1;
  return std::ldexp(static_cast<float>((1 << 23) | fraction), exponent - 23);
}

template <class T, class F>
void fill_with(Array& array, F value_at) {
  T* const data = array.data<T>();
  const std::int64_t count = array.elements();
#pragma omp parallel for schedule(static) if (count > 1 << 15)
  for (std::int64_t i = 0; i < count; ++i) data[i] = from_float<T>(value_at(i));
}

template <class F>
void fill(Array& array, F value_at) {
  switch (array.dtype()) {
    case Dtype::float32:
      return fill_with<float>(array, value_at);
    case Dtype::float16:
      return fill_with<float16>(array, value_at);
    case Dtype::bfloat16:
      return fill_with<bfloat16>(array, value_at);
    case Dtype::float8_e4m3fn:
      return fill_with<float8_e4m3fn>(array, value_at);
    case Dtype::int32:
    case Dtype::int64:
      break;
  }
  throw ArgumentError(
      fmt::format("{}: got dtype {}; allowed for random values: float32, float16, bfloat16, "
                  "float8_e4m3fn",
                  array.name(), name_of(array.dtype())));
}

}  // namespace

std::uint64_t random_bits(std::uint64_t seed, std::string_view name, std::uint64_t index) {
  return at(stream_key(seed, name), index);
}

void fill_normal_like(Array& array, std::uint64_t seed, float scale) {
  if (!(scale > 0 && std::isfinite(scale))) {
    throw ArgumentError(
        fmt::format("{}: got scale {}; allowed: a finite number above zero", array.name(), scale));
  }
  const std::uint64_t key = stream_key(seed, array.name());
  const float unit = scale / bell_deviation;
  fill(array, [=](std::int64_t i) {
    return static_cast<float>(bell(at(key, static_cast<std::uint64_t>(i)))) * unit;
  });
}

void fill_activation(Array& array, std::uint64_t seed) {
  const std::uint64_t key = stream_key(seed, array.name());
  const std::uint64_t row_key = mix(key);  // a stream apart from that of the elements
  const std::int64_t cols = array.cols();
  std::vector<float> units(static_cast<std::size_t>(array.elements() == 0 ? 0 : array.row_count()));
  for (std::size_t row = 0; row < units.size(); ++row) {
    units[row] = row_deviation(at(row_key, row)) / bell_deviation;
  }
  fill(array, [=, unit = units.data()](std::int64_t i) {
    return static_cast<float>(bell(at(key, static_cast<std::uint64_t>(i)))) * unit[i / cols];
  });
}

void fill_uniform(Array& array, std::uint64_t seed, float low, float high) {
  const float width = high - low;
  if (!(low < high && std::isfinite(low) && std::isfinite(width))) {
    throw ArgumentError(
        fmt::format("{}: got bounds {} and {}; allowed: finite, the first below "
                    "the second, their distance finite",
                    array.name(), low, high));
  }
  const std::uint64_t key = stream_key(seed, array.name());
  const double step = static_cast<double>(width) * 0x1p-24;
  fill(array, [=](std::int64_t i) {
    // 24 bits times float's 24: the product is exact in double, so that a compiler which contracts
    // it with the sum changes nothing.
    const auto k = static_cast<double>(at(key, static_cast<std::uint64_t>(i)) >> 40);
    return static_cast<float>(low + k * step);
  });
}

void fill_weight(Array& array, std::uint64_t seed) {
  fill_uniform(array, seed, 0.5f, 1.5f);
}

}  // namespace opbook
