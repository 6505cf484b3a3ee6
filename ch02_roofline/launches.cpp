#include "ch02_roofline/launches.hpp"

#include "ch02_roofline/gpu_peak.hpp"

namespace opbook::ch02::gpu {
namespace {

void queue(opbook::gpu::Stream stream, int launches) {
  for (int i = 0; i < launches; ++i) queue_empty_kernel(stream);
}

}  // namespace

Launches::Launches(int launches, bool as_graph) : count_(launches) {
  if (as_graph) graph_.emplace([&](opbook::gpu::Stream stream) { queue(stream, count_); });
}

double Launches::sample_us() {
  before_.record(nullptr);
  if (graph_) {
    graph_->launch(nullptr);
  } else {
    queue(nullptr, count_);
  }
  after_.record(nullptr);
  return after_.microseconds_since(before_) / count_;
}

}  // namespace opbook::ch02::gpu
