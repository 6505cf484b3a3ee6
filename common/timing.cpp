#include "common/timing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include "common/error.hpp"

namespace opbook {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// The value a share of the way through sorted values, between neighbours in proportion.
double quantile(const std::vector<double>& sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const std::size_t below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

/// How many of the smallest (and of the largest) of n values may be dropped so that the rest still
/// encloses the median with 95 % confidence: the count of values below the median is binomial with
/// p = 1/2, so this is the largest k with P(count < k) <= 2.5 %.
std::size_t droppable(std::size_t n) {
  double probability = std::pow(0.5, static_cast<double>(n));  // of a count of exactly k
  double below = probability;                                  // of a count of at most k
  std::size_t k = 0;
  while (below <= 0.025) {
    ++k;
    probability *= static_cast<double>(n - k + 1) / static_cast<double>(k);
    below += probability;
  }
  return k == 0 ? 0 : k - 1;
}

}  // namespace

Timing summarise(std::span<const double> samples_us) {
  if (samples_us.empty()) throw ArgumentError("samples: got none; allowed: one or more");
  std::vector<double> sorted(samples_us.begin(), samples_us.end());
  std::sort(sorted.begin(), sorted.end());
  return {quantile(sorted, 0.5), quantile(sorted, 0.25), quantile(sorted, 0.75),
          static_cast<int>(sorted.size())};
}

Bounded bounded_median(std::vector<double> values) {
  if (values.empty()) throw ArgumentError("values: got none; allowed: one or more");
  std::sort(values.begin(), values.end());
  const std::size_t dropped = droppable(values.size());
  return {quantile(values, 0.5), values[dropped], values[values.size() - 1 - dropped]};
}

Bounded share_of_roof(std::span<const double> roof_us, std::span<const double> contender_us) {
  if (roof_us.size() != contender_us.size()) {
    throw ArgumentError("contender: got " + std::to_string(contender_us.size()) +
                        " samples; allowed: the roof's " + std::to_string(roof_us.size()));
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < roof_us.size(); ++i) ratios.push_back(roof_us[i] / contender_us[i]);
  return bounded_median(std::move(ratios));
}

std::vector<std::vector<double>> sample_in_turn(std::span<const std::function<double()>> contenders,
                                                const TimingOptions& options) {
  for (int i = 0; i < options.warmup; ++i) {
    for (const auto& contender : contenders) contender();
  }
  std::vector<std::vector<double>> samples(contenders.size());
  const auto settled = [&] {
    return std::all_of(samples.begin(), samples.end(), [&](const std::vector<double>& one) {
      const Bounded bounds = bounded_median(one);
      return bounds.high - bounds.low <= 2 * options.settled * bounds.median;
    });
  };
  const Clock::time_point start = Clock::now();
  for (int taken = 0; taken < options.max_samples; ++taken) {
    const bool late = microseconds_since(start) > options.max_seconds * 1e6;
    if (taken >= options.min_samples && (late || settled())) break;
    for (std::size_t c = 0; c < contenders.size(); ++c) samples[c].push_back(contenders[c]());
  }
  return samples;
}

std::vector<std::vector<double>> time_in_turn(std::span<const std::function<void()>> contenders,
                                              const std::function<void()>& prepare,
                                              const TimingOptions& options) {
  for (int i = 0; i < options.warmup; ++i) {
    for (const auto& contender : contenders) contender();
  }
  std::vector<std::function<double()>> timed;
  for (const std::function<void()>& contender : contenders) {
    timed.push_back([&] {
      prepare();
      const Clock::time_point begin = Clock::now();
      contender();
      return microseconds_since(begin);
    });
  }
  TimingOptions warm = options;
  warm.warmup = 0;
  return sample_in_turn(timed, warm);
}

std::int64_t cold_working_set_bytes(std::int64_t llc_bytes, std::int64_t memory_bytes) {
  if (llc_bytes < 1 || memory_bytes < 1) {
    throw ArgumentError("caches and memory: got " + std::to_string(llc_bytes) + " and " +
                        std::to_string(memory_bytes) + " bytes; allowed: sizes above zero");
  }
  return std::min(4 * llc_bytes, memory_bytes / 4);
}

CacheFlush::CacheFlush(std::int64_t llc_bytes) : memory_(2 * llc_bytes / sizeof(std::uint64_t)) {}

void CacheFlush::operator()() {
#pragma omp parallel for schedule(static)
  for (std::size_t i = 0; i < memory_.size(); ++i) ++memory_[i];
}

}  // namespace opbook
