#pragma once

// Work that is queued once and replayed with one call: what an operator on a row or two takes where
// no launch from the host is waited for, as a model's step replays it.

#include <cstddef>
#include <functional>
#include <memory>

#include "common/cuda/device.hpp"

namespace opbook::gpu {

/// A captured CUDA graph. Throws CudaError.
class Graph {
 public:
  /// Calls `queue` with a stream; what it queues there runs whenever the graph is launched, and not
  /// before. It may neither wait for the device nor allocate.
  explicit Graph(const std::function<void(Stream)>& queue);
  void launch(Stream stream) const;

 private:
  struct Destroy {
    void operator()(void* graph) const;
  };
  std::unique_ptr<void, Destroy> graph_;
};

/// Queues a kernel that does next to nothing, in the usual way, not early: one thread reads the
/// word at `from` and stores it at `to`, both on 4-byte boundaries of the device.
void read_one_word(Stream stream, const std::byte* from, std::byte* to);

}  // namespace opbook::gpu
