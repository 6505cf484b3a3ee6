#include "common/cuda/graph.hpp"
#include "common/cuda/launch.cuh"

namespace opbook::gpu {
namespace {

__global__ void read_one_word_kernel(const unsigned* from, unsigned* to) {
  *to = *from;
}

/// A stream of its own: the default one cannot be captured.
class CaptureStream {
 public:
  CaptureStream() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~CaptureStream() { cudaStreamDestroy(stream_); }
  CaptureStream(const CaptureStream&) = delete;
  CaptureStream& operator=(const CaptureStream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace

Graph::Graph(const std::function<void(Stream)>& queue) {
  const CaptureStream stream;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t captured = nullptr;
  try {
    queue(stream);
  } catch (...) {
    cudaStreamEndCapture(stream, &captured);
    cudaGraphDestroy(captured);
    throw;
  }
  check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
  cudaGraphExec_t graph = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&graph, captured, 0);
  cudaGraphDestroy(captured);
  check(error, "cudaGraphInstantiate");
  graph_.reset(graph);
}

void Graph::launch(Stream stream) const {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph_.get()), stream), "cudaGraphLaunch");
}

void Graph::Destroy::operator()(void* graph) const {
  cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
}

void read_one_word(Stream stream, const std::byte* from, std::byte* to) {
  launch("read_one_word", stream, read_one_word_kernel, 1, 1, 0,
         reinterpret_cast<const unsigned*>(from), reinterpret_cast<unsigned*>(to));
}

}  // namespace opbook::gpu
