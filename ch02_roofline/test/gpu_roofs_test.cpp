// The kernels that measure the GPU's roofs do what their names say.

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "ch02_roofline/gpu_bandwidth.hpp"
#include "ch02_roofline/gpu_peak.hpp"
#include "ch02_roofline/launches.hpp"
#include "ch02_roofline/matmul.hpp"
#include "ch02_roofline/roofs.hpp"
#include "common/cuda/launch_watch.hpp"
#include "common/error.hpp"
#include "common/test/require_gpu.hpp"

using namespace opbook;
namespace roofs = opbook::ch02::gpu;
using opbook::gpu::DeviceMemory;
using roofs::Mix;

namespace {

std::vector<float> fetched(const DeviceMemory& memory) {
  std::vector<float> values(memory.bytes() / sizeof(float));
  opbook::gpu::copy_to_host(reinterpret_cast<std::byte*>(values.data()), memory.data(),
                            memory.bytes());
  return values;
}

/// What a mix leaves in element i of y.
float expected(Mix mix, std::int64_t i, const std::vector<float>& x, const std::vector<float>& z) {
  switch (mix) {
    case Mix::write:
      return 1;
    case Mix::copy:
      return x[i];
    case Mix::scale:
      return 3 * x[i];
    case Mix::triad:
      return std::fma(x[i], 3.0f, z[i]);
    default: {  // mix_2_1: of every 64 vectors the first 32 and the others
      const std::int64_t vector = i / 4, first = 4 * (vector / 32 * 64 + vector % 32) + i % 4;
      return x[first] + x[first + 4 * 32];
    }
  }
}

}  // namespace

TEST_CASE("every bandwidth kernel of the GPU writes what its mix says, and nothing else",
          "[gpu][sanitize]") {
  require_gpu();
  const opbook::gpu::LaunchWatch watch;
  constexpr std::int64_t beyond = 64;  // vectors after y, which stay
  for (const std::int64_t vectors : {32, 96, 3200, 20000 / 32 * 32}) {
    DeviceMemory x(2 * vectors * 16), z(vectors * 16), y((vectors + beyond) * 16);
    roofs::fill_floats(nullptr, x.data(), 2 * vectors);
    roofs::fill_floats(nullptr, z.data(), vectors);
    const std::vector<float> host_x = fetched(x), host_z = fetched(z);
    for (const Mix mix : roofs::mixes) {
      for (const bool once : {true, false}) {
        INFO(roofs::name_of(mix) << (once ? " once, " : " again, ") << vectors << " vectors");
        opbook::gpu::fill_on_device(nullptr, y.data(), 0xFF, y.bytes());
        const roofs::MixArrays arrays{x.data(), z.data(), y.data(), vectors};
        if (once) {
          roofs::move_once(nullptr, mix, arrays);
        } else {
          roofs::move_again(nullptr, mix, arrays, 2, 3);
        }
        const std::vector<float> found = fetched(y);
        const std::int64_t written = mix == Mix::read ? 0 : 4 * vectors;
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < static_cast<std::int64_t>(found.size()); ++i) {
          const bool right =
              i < written ? found[i] == expected(mix, i, host_x, host_z) : std::isnan(found[i]);
          wrong += !right;
        }
        CHECK(wrong == 0);
      }
    }
  }
  for (const opbook::gpu::LaunchedKernel& kernel : watch.kernels()) {
    INFO(kernel.name << ", " << kernel.registers << " registers");
    CHECK(kernel.local_bytes == 0);
  }
}

TEST_CASE("data for bandwidth lies in [1, 2) and differs from number to number",
          "[gpu][sanitize]") {
  require_gpu();
  DeviceMemory memory(1 << 16);
  roofs::fill_floats(nullptr, memory.data(), memory.bytes() / 16);
  const std::vector<float> values = fetched(memory);
  std::int64_t same = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK((values[i] >= 1 && values[i] < 2));
    same += i > 0 && values[i] == values[i - 1];
  }
  CHECK(same == 0);
}

TEST_CASE("the GPU's units multiply and add without local memory, the longer the more rounds",
          "[gpu][sanitize]") {
  require_gpu();
  const roofs::Units units = roofs::describe_units();
  CHECK(units.sm_count > 0);
  CHECK(units.clock_ghz > 0.1);
  CHECK(units.shared_bytes_per_sm >= units.shared_bytes_per_block);
  const opbook::gpu::LaunchWatch watch;
  DeviceMemory sink(8);
  opbook::gpu::fill_on_device(nullptr, sink.data(), 0, 8);
  for (const roofs::Arithmetic unit :
       {roofs::Arithmetic::fp32, roofs::Arithmetic::fp64, roofs::Arithmetic::bf16_mma}) {
    if (unit == roofs::Arithmetic::bf16_mma && units.major < 8) continue;
    CHECK(roofs::flops_a_round(unit) > 1e5);
    roofs::multiply_adds(nullptr, unit, 2, 3, sink.data());
    opbook::gpu::synchronise();
  }
  for (const opbook::gpu::LaunchedKernel& kernel : watch.kernels()) {
    INFO(kernel.name << ", " << kernel.registers << " registers");
    CHECK(kernel.local_bytes == 0);
  }
  const std::vector<float> left = fetched(sink);
  CHECK(left == std::vector<float>{0, 0});
}

TEST_CASE("an empty kernel costs less in a graph than in a stream", "[gpu]") {
  require_gpu();
  roofs::Launches in_stream(200, false), in_graph(200, true);
  double stream_us = 1e9, graph_us = 1e9;
  for (int i = 0; i < 20; ++i) {
    stream_us = std::min(stream_us, in_stream.sample_us());
    graph_us = std::min(graph_us, in_graph.sample_us());
  }
  CHECK(stream_us > 0);
  CHECK(graph_us > 0);
  CHECK(graph_us < stream_us);
}

TEST_CASE("a product by cuBLASLt runs, or says why it does not", "[gpu]") {
  require_gpu();
  for (const char* const unit : {"fp16", "bf16", "fp8", "tf32"}) {
    INFO(unit);
    try {
      roofs::Matmul matmul(unit, 256);
      CHECK(matmul.flops() == 2.0 * 256 * 256 * 256);
      matmul.run(nullptr);
      opbook::gpu::synchronise();
    } catch (const DeviceUnavailable& unavailable) {
      CHECK(std::string(unavailable.what()).find("cuBLASLt") == 0);
    }
  }
}

TEST_CASE("shared memory stands for what a block and an sm have on chip", "[gpu]") {
  require_gpu();
  const ch02::OnChip on_chip = ch02::gpu_on_chip();
  CHECK(on_chip.bytes_per_block >= 48 << 10);
  CHECK(on_chip.bytes_per_sm >= on_chip.bytes_per_block);
}
