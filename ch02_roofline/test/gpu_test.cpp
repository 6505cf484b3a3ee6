// The chain on a CUDA device, against its definition. Tests tagged [sanitize] are small and reach
// every kernel: scripts/sanitize.sh runs them under compute-sanitizer.

#include "ch02_roofline/multiply_add_chain.hpp"
#include "ch02_roofline/test/chain_test.hpp"
#include "common/cuda/device_tensors.hpp"
#include "common/cuda/launch_watch.hpp"
#include "common/test/require_gpu.hpp"

using namespace opbook;
using namespace opbook::ch02;

namespace {

void require_verified(const Problem& problem, std::int64_t offset = 0) {
  Tensors tensors(problem.tensors);
  fill_inputs(problem, tensors, 11);
  opbook::gpu::DeviceTensors device(problem.tensors, offset);
  for (const Finding& finding :
       verify_problem(problem, tensors, run_on_device(problem, device), Twin::second_run)) {
    INFO(name_of(problem.dtype) << " of " << problem.shape.front() << ", k "
                                << problem.ledger.unfused.kernels.size() << ", offset " << offset
                                << ": " << finding.plan << ' ' << finding.kernel << ' '
                                << finding.detail);
    REQUIRE(finding.pass);
  }
}

}  // namespace

TEST_CASE("the GPU's chain is its definition to the bit, at every kind of length", "[gpu]") {
  require_gpu();
  std::int64_t offset = 0;
  for (const Problem& problem : chapter().verification_problems()) {
    require_verified(problem, offset);
    offset = (offset + 1) % 3;
  }
}

TEST_CASE("the GPU's chains keep all in registers, on vectors and one by one", "[gpu][sanitize]") {
  require_gpu();
  const opbook::gpu::LaunchWatch watch;
  for (const Dtype dtype : dtypes) {
    for (const std::int64_t n : {1, 8, 1023, 1024, 2051}) {
      for (const std::int64_t offset : {0, 1}) {
        require_verified(chain_problem({.n = n, .k = 5, .dtype = dtype}), offset);
      }
    }
  }
  for (const opbook::gpu::LaunchedKernel& kernel : watch.kernels()) {
    INFO(kernel.name << ", " << kernel.registers << " registers");
    CHECK(kernel.local_bytes == 0);
  }
  CHECK(watch.launches() > 0);
}

TEST_CASE("overflow, underflow and NaN on the GPU are those of IEEE arithmetic",
          "[gpu][sanitize]") {
  require_gpu();
  over_special_values([](const Problem& problem, Tensors& tensors) {
    opbook::gpu::DeviceTensors device(problem.tensors);
    for (const Finding& finding :
         verify_problem(problem, tensors, run_on_device(problem, device), Twin::second_run)) {
      INFO(finding.plan << ' ' << finding.detail);
      CHECK(finding.pass);
    }
  });
}

TEST_CASE("CPU and GPU give the same bits", "[gpu]") {
  require_gpu();
  for (const Dtype dtype : dtypes) {
    const Problem problem = chain_problem({.n = 5003, .k = 37, .dtype = dtype});
    Tensors on_cpu(problem.tensors), on_gpu(problem.tensors);
    fill_inputs(problem, on_cpu, 3);
    fill_inputs(problem, on_gpu, 3);
    opbook::gpu::DeviceTensors device(problem.tensors);
    Fast fast;
    for (const PlanKind plan : both_plans) {
      problem.run(fast, plan, on_cpu);
      run_on_device(problem, device)(plan, on_gpu);
      INFO(name_of(dtype) << ' ' << name_of(plan));
      CHECK(same_bits(on_cpu.at("y"), on_gpu.at("y")));
    }
  }
}

TEST_CASE("more than 2^31 elements of float16 are right to the last", "[gpu][.large]") {
  require_gpu();
  const std::int64_t n = (std::int64_t{1} << 31) + 1031, tail = 2000;
  Array last = filled("x", Dtype::float16, tail), found("y", Dtype::float16, {tail});
  opbook::gpu::DeviceMemory x(n * 2), y(n * 2);
  opbook::gpu::fill_on_device(nullptr, x.data(), 0, x.bytes());
  opbook::gpu::copy_to_device(x.data() + (n - tail) * 2, last.raw(), last.bytes());
  ch02::gpu::multiply_add_chain<float16>(
      nullptr, Row<const float16>{reinterpret_cast<const float16*>(x.data()), n}, -0.5f, 1.0f, 3,
      Row<float16>{reinterpret_cast<float16*>(y.data()), n});
  opbook::gpu::copy_to_host(found.raw(), y.data() + (n - tail) * 2, found.bytes());
  Array expected("y", Dtype::float16, {tail});
  Fast fast;
  cpu::multiply_add_chain(fast, last.row<float16>(), -0.5f, 1.0f, 3, expected.row<float16>());
  CHECK(same_bits(found, expected));
  for (const std::int64_t at : {std::int64_t{0}, n / 2, n - tail - 8}) {
    opbook::gpu::copy_to_host(found.raw(), y.data() + at * 2, 16);
    for (std::int64_t i = 0; i < 8; ++i) CHECK(found.value(i) == 0.75);  // 1, 1/2, 3/4
  }
}

TEST_CASE("the GPU refuses what the CPU refuses, before anything is launched", "[gpu]") {
  require_gpu();
  const opbook::gpu::LaunchWatch watch;
  float memory[16] = {};
  const Row<float> x{memory, 8}, y{memory + 8, 8};
  CHECK_THROWS_MATCHES(ch02::gpu::multiply_add_chain<float>(nullptr, x, 1, 1, 0, y), ArgumentError,
                       begins("k: got 0"));
  CHECK_THROWS_MATCHES(ch02::gpu::multiply_add_chain<float>(nullptr, x, 1, 1, 65537, y),
                       ArgumentError, begins("k: got 65537"));
  CHECK_THROWS_MATCHES(
      ch02::gpu::multiply_add_chain_unfused<float>(nullptr, x, 1, 1, 1, y.slice(0, 7)),
      ArgumentError, begins("y: got 7"));
  ch02::gpu::multiply_add_chain<float>(nullptr, Row<const float>(), 1, 1, 1, Row<float>());
  CHECK(watch.launches() == 0);
}
