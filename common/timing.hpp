#pragma once

// Timing, by one protocol: contenders take turns, sample by sample, since machines
// drift; caches are cold; a share of the roof is the median of paired ratios, with its confidence
// bounds.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace opbook {

/// Quartiles of one contender's samples.
struct Timing {
  double median_us = 0;
  double p25_us = 0;
  double p75_us = 0;
  int n = 0;
};

/// Throws ArgumentError where there are no samples.
Timing summarise(std::span<const double> samples_us);

/// A median with distribution-free bounds: the order statistics that enclose it with at least 95 %
/// confidence (binomial), or all samples where there are too few for that.
struct Bounded {
  double median = 0;
  double low = 0;
  double high = 0;
};
Bounded bounded_median(std::vector<double> values);

/// roof[i] / contender[i], sample by sample: the contender's speed as a share of the roof's, where
/// both move the same bytes. Throws ArgumentError for lengths that differ.
Bounded share_of_roof(std::span<const double> roof_us, std::span<const double> contender_us);

struct TimingOptions {
  int warmup = 2;
  int min_samples = 11;
  int max_samples = 101;
  double settled = 0.01;     ///< stop once each median's bounds lie within this share of it
  double max_seconds = 2.0;  ///< stop taking samples, above min_samples, after this long
};

/// Takes samples of the contenders in turn, until the noise settles: each makes one when called, in
/// microseconds. By contender and sample.
std::vector<std::vector<double>> sample_in_turn(std::span<const std::function<double()>> contenders,
                                                const TimingOptions& options = {});

/// The same by the CPU's clock: runs the contenders in turn, `prepare` before each run and outside
/// its time.
std::vector<std::vector<double>> time_in_turn(std::span<const std::function<void()>> contenders,
                                              const std::function<void()>& prepare,
                                              const TimingOptions& options = {});

/// Bytes that a benchmark should move so that nothing is found in a cache: the smaller of four
/// last-level caches and a quarter of the memory. Throws ArgumentError where either is below one.
std::int64_t cold_working_set_bytes(std::int64_t llc_bytes, std::int64_t memory_bytes);

/// Twice the last-level cache, whose traversal pushes everything else out of it.
class CacheFlush {
 public:
  explicit CacheFlush(std::int64_t llc_bytes);
  void operator()();

 private:
  std::vector<std::uint64_t> memory_;
};

}  // namespace opbook
