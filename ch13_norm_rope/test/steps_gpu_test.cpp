// The steps on a CUDA device, against the double-precision reference of the operator they lead to.

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "ch13_norm_rope/operators.hpp"
#include "ch13_norm_rope/test/operator_test.hpp"
#include "common/cuda/device_tensors.hpp"
#include "common/cuda/launch_watch.hpp"
#include "common/test/require_gpu.hpp"

using namespace opbook;
using namespace opbook::ch13;

namespace {

/// Every step of an operator on m rows of n, after `change` to its inputs.
void require_right_steps(const char* op, Dtype dtype, std::int64_t m, std::int64_t n,
                         std::int64_t turned, const std::function<void(Arguments&)>& vary = nullptr,
                         const std::function<void(Tensors&)>& change = nullptr) {
  const Operator& entry = *find_operator(op);
  Arguments a = entry.defaults;
  a.dtype = dtype;
  a.m = m;
  a.n = n;
  a.rope_dim = turned;
  if (vary) vary(a);
  const Problem problem = entry.make_problem(a);
  Tensors tensors(problem.tensors);
  fill_inputs(problem, tensors, 17);
  if (change) change(tensors);
  opbook::gpu::DeviceTensors device(problem.tensors);
  for (std::size_t i = 0; i < problem.steps.size(); ++i) {
    const Problem step = step_of(problem, i);
    for (const Finding& finding :
         verify_problem(step, tensors, run_on_device(step, device), Twin::second_run)) {
      if (finding.plan != "fused") continue;  // the unfused plan is no step; gpu_test.cpp has it
      INFO(op << ' ' << name_of(dtype) << " of " << m << " x " << n << ", " << turned
              << " turned: " << problem.steps[i].name << ' ' << finding.plan << ' '
              << finding.kernel << ' ' << finding.tensor << ' ' << finding.detail);
      REQUIRE(finding.pass);
    }
  }
}

void require_all_in_registers(const opbook::gpu::LaunchWatch& watch) {
  for (const opbook::gpu::LaunchedKernel& kernel : watch.kernels()) {
    INFO(kernel.name << ", " << kernel.registers << " registers");
    CHECK(kernel.local_bytes == 0);
  }
}

}  // namespace

TEST_CASE("every step of rms_norm is right on the GPU and keeps all in registers",
          "[gpu][sanitize]") {
  require_gpu();
  const opbook::gpu::LaunchWatch watch;
  for (const Dtype dtype : input_dtypes) {
    // One vector, a warp not full, more than a pass of the block, all that is held; and rows beyond
    // what one block of naive threads takes.
    for (const auto& [m, n] :
         {std::pair{3, 8}, {2, 264}, {130, 256}, {2, 2056}, {2, 5128}, {3, 8192}}) {
      require_right_steps("rms_norm", dtype, m, n, 0);
    }
  }
  require_all_in_registers(watch);
}

TEST_CASE("every step of rms_norm_rope_quant is right on the GPU and keeps all in registers",
          "[gpu][sanitize]") {
  require_gpu();
  const opbook::gpu::LaunchWatch watch;
  for (const Dtype dtype : input_dtypes) {
    const std::int64_t width = 16 / size_of(dtype);
    // From one pair of vectors to a whole warp; the last ones of a thread, or of a warp in between.
    for (const auto& [m, n, turned] :
         {std::tuple<std::int64_t, std::int64_t, std::int64_t>{3, 2 * width, 2 * width},
          {130, 384, 64},
          {2, 45 * 32, 32},
          {2, 5120, 128},
          {2, 9 * 32 * width, 32 * width},
          {3, 8192, 128}}) {
      require_right_steps("rms_norm_rope_quant", dtype, m, n, turned);
    }
    require_right_steps("rms_norm_rope_quant", dtype, 5, 1024, 64, [](Arguments& a) {
      a.with_y = true;
      a.positions = {7, 3, Dtype::int32};
    });
    require_right_steps("rms_norm_rope_quant", dtype, 5, 1024, 64,
                        [](Arguments& a) { a.positions = {7, 5, Dtype::int64}; });
  }
  require_all_in_registers(watch);
}

TEST_CASE("special values go through every step as the formula takes them", "[gpu][sanitize]") {
  require_gpu();
  const std::int64_t n = 512;
  for (const Dtype dtype : input_dtypes) {
    const auto change = [&](Tensors& tensors) {
      visit_input_dtype(dtype, [&]<class T>() {
        const Rows<T> x = tensors.rows<T>("x");
        x.row(1).data[3] = from_float<T>(NAN);
        x.row(2).data[n - 1] = from_float<T>(INFINITY);
        x.row(3).data[0] = from_float<T>(-INFINITY);
        for (std::int64_t j = 0; j < n; ++j) x.row(4).data[j] = from_float<T>(0.0f);
        for (std::int64_t j = 0; j < n; ++j) x.row(5).data[j] = from_float<T>(-0.0f);
      });
    };
    require_right_steps("rms_norm", dtype, 6, n, 0, nullptr, change);
    require_right_steps("rms_norm_rope_quant", dtype, 6, n, 64, nullptr, change);
  }
}

TEST_CASE("a step refuses on the GPU what it does not take, before anything is launched", "[gpu]") {
  require_gpu();
  const Operator& entry = *find_operator("rms_norm_rope_quant");
  Arguments a = entry.defaults;
  a.m = 2;
  a.n = 512;
  a.group_size = 128;
  const Problem problem = entry.make_problem(a);
  Tensors tensors(problem.tensors);
  fill_inputs(problem, tensors, 1);
  opbook::gpu::DeviceTensors device(problem.tensors);
  const opbook::gpu::LaunchWatch watch;
  const Run run = [&](PlanKind plan, Tensors&) {
    problem.steps.front().run_on_gpu(nullptr, plan, device);
  };
  CHECK_THROWS_MATCHES(run(PlanKind::fused, tensors), ArgumentError, begins("group_size: got 128"));
  CHECK(watch.launches() == 0);
}
