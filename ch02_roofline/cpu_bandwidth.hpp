#pragma once

// What the CPU's memory moves: one loop for each mix of loads and stores, over arrays of any size.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace opbook::ch02::cpu {

/// The part of the arrays that one thread works on: `count` float32 of y (of x, where nothing is
/// written), a multiple of 64. x has twice as many for mix_2_1.
struct Share {
  const float* x = nullptr;
  const float* z = nullptr;
  float* y = nullptr;
  std::int64_t count = 0;
};

/// One way to move a mix's bytes.
struct BandwidthLoop {
  std::string_view mix;  ///< of bandwidth_mixes
  const char* how;       ///< "loads" or "ordinary stores", or another way, of use in memory alone
  int bytes_an_element;  ///< read and written for each element of `count`
  void (*run)(const Share&);
};

/// read: all of x. write: y = 1. copy: y = x. scale: y = 3 x. triad: y = z + 3 x. mix_2_1: y[i] is
/// the sum of two neighbouring registers of x. Those that write come with ordinary and with
/// non-temporal stores, those that read prefetched too, copy by memcpy besides.
std::vector<BandwidthLoop> bandwidth_loops();

/// Arrays of `bytes` in all for a loop, shared out over threads, each of which has touched its own
/// first. The arrays lie off each other's addresses by more than a page: loads and stores whose
/// addresses agree in their last 12 bits wait for each other.
class SharedArrays {
 public:
  SharedArrays(std::int64_t most_bytes, int threads);
  /// Bytes moved by a pass over them, which are at most those asked for.
  std::int64_t lay_out(const BandwidthLoop& loop, std::int64_t bytes);
  /// Microseconds of `passes` passes, all threads at once.
  double pass(const BandwidthLoop& loop, std::int64_t passes) const;
  const std::vector<Share>& shares() const { return shares_; }

 private:
  struct Free {
    void operator()(float* memory) const;
  };
  int threads_;
  std::int64_t slab_floats_;  ///< of one thread
  std::unique_ptr<float, Free> memory_;
  std::vector<Share> shares_;
};

}  // namespace opbook::ch02::cpu
