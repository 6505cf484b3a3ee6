// The operators on a CUDA device, against the double-precision reference. Tests tagged [sanitize]
// reach every kernel and branch on small shapes: scripts/sanitize.sh runs them under
// compute-sanitizer. Those tagged [large] need most of a large card's memory.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>

#include "ch13_norm_rope/chapter.hpp"
#include "ch13_norm_rope/layer_norm.hpp"
#include "ch13_norm_rope/operators.hpp"
#include "ch13_norm_rope/rms_norm.hpp"
#include "ch13_norm_rope/rms_norm_rope.hpp"
#include "ch13_norm_rope/test/operator_test.hpp"
#include "common/cuda/device_tensors.hpp"
#include "common/cuda/few_blocks.hpp"
#include "common/cuda/launch_watch.hpp"
#include "common/cuda/probe.hpp"
#include "common/test/mirror.hpp"
#include "common/test/require_gpu.hpp"

using namespace opbook;
using namespace opbook::ch13;

namespace {

/// Both plans of one problem: every kernel against its reference, and a second run to the same
/// bits.
void require_verified(const Problem& problem, std::int64_t offset = 0) {
  Tensors tensors(problem.tensors);
  fill_inputs(problem, tensors, 11);
  opbook::gpu::DeviceTensors device(problem.tensors, offset);
  for (const Finding& finding :
       verify_problem(problem, tensors, run_on_device(problem, device), Twin::second_run)) {
    INFO(problem.op << ' ' << name_of(problem.dtype) << " of " << problem.shape.front() << " x "
                    << problem.shape.back() << ", offset " << offset << ": " << finding.plan << ' '
                    << finding.kernel << ' ' << finding.tensor << ' ' << finding.detail);
    REQUIRE(finding.pass);
  }
}

bool takes(const Operator& entry, std::string_view argument) {
  for (const std::string_view taken : entry.arguments) {
    if (taken == argument) return true;
  }
  return false;
}

/// An operator on `rows` rows of `columns`, of which `turned` turn.
Problem problem_on(const Operator& entry, Dtype dtype, std::int64_t rows, std::int64_t columns,
                   std::int64_t turned, const std::function<void(Arguments&)>& vary = nullptr) {
  Arguments a = entry.defaults;
  a.dtype = dtype;
  if (takes(entry, "m")) {
    a.m = rows;
    a.n = columns;
    a.rope_dim = turned;
  } else if (takes(entry, "tokens")) {
    a.tokens = rows;
    a.heads = 3;
    a.rope_dim = turned;
  } else {
    a.n = rows * columns;
  }
  if (vary) vary(a);
  return entry.make_problem(a);
}

/// Widths that reach each kernel once: every number of threads, ragged ones, rows too long to hold.
constexpr std::int64_t widths[] = {8,    64,   256,  769,  1024,  1368,  2048, 3584,
                                   4096, 5120, 8192, 8200, 16384, 32768, 33000};

/// Rows of `n` 16-bit columns, quantised by blocks of which a multiprocessor holds `rows_at_once`:
/// so many rows that some take one and some two.
void require_in_turn(Dtype dtype, std::int64_t n, std::int64_t rows_at_once) {
  const opbook::gpu::FewBlocks none(0);
  const std::int64_t sms = opbook::gpu::probe_device().device->sm_count;
  require_verified(
      problem_on(*find_operator("rms_norm_rope_quant"), dtype, sms * rows_at_once + 3, n, 128));
}

}  // namespace

TEST_CASE("the GPU agrees with the reference for every operator, dtype and kind of shape",
          "[gpu]") {
  require_gpu();
  std::int64_t offset = 0;
  for (const Problem& problem : ch13::chapter().verification_problems()) {
    require_verified(problem, offset);
    offset = (offset + 1) % 3;
  }
}

TEST_CASE("every kernel of the GPU is right at its own width and keeps all in registers",
          "[gpu][sanitize]") {
  require_gpu();
  const opbook::gpu::LaunchWatch watch;
  for (const Operator& entry : operators()) {
    for (const Dtype dtype : input_dtypes) {
      for (const std::int64_t n : widths) {
        const std::int64_t turned = std::min<std::int64_t>(128, n / 2 * 2);
        const Problem problem = problem_on(entry, dtype, 2, n, turned);
        require_verified(problem, n == 1024 ? 1 : 0);
        const opbook::gpu::FewBlocks none(0);  // the kernels for many rows
        require_verified(problem);
      }
      // All columns turn: pairs in different warps, and too many to meet in shared memory.
      if (takes(entry, "rope_dim")) {
        for (const std::int64_t n : {16, 256, 4096, 20480}) {
          require_verified(problem_on(entry, dtype, 2, n, n));
        }
      }
    }
  }
  for (const opbook::gpu::LaunchedKernel& kernel : watch.kernels()) {
    INFO(kernel.name << ", " << kernel.registers << " registers");
    CHECK(kernel.local_bytes == 0);
  }
  CHECK(watch.kernels().size() > 100);
}

TEST_CASE("rows that need fewer vectors a thread are right on the GPU, and stay in registers",
          "[gpu][sanitize]") {
  require_gpu();
  const opbook::gpu::FewBlocks none(0);
  const opbook::gpu::LaunchWatch watch;
  for (const std::string_view op : {"rms_norm_rope", "rms_norm_rope_quant"}) {
    for (const Dtype dtype : input_dtypes) {
      // Three of four vectors a thread, and five, six and seven of eight.
      for (const std::int64_t vectors : {96, 192, 384, 640, 768, 896, 1280, 1792, 3072, 3584}) {
        const std::int64_t n = vectors * 16 / size_of(dtype);
        require_verified(problem_on(*find_operator(op), dtype, 3, n, 64));
      }
    }
  }
  for (const opbook::gpu::LaunchedKernel& kernel : watch.kernels()) {
    INFO(kernel.name << ", " << kernel.registers << " registers");
    CHECK(kernel.local_bytes == 0);
  }
}

TEST_CASE("blocks of the GPU that take rows in turn take each once", "[gpu][sanitize]") {
  require_gpu();
  require_in_turn(Dtype::bfloat16, 4096, 6);
}

TEST_CASE("rows in turn are right in both 16-bit types, and where a row is alone", "[gpu]") {
  require_gpu();
  for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16}) {
    require_in_turn(dtype, 2048, 12);
    require_in_turn(dtype, 4096, 6);
    const opbook::gpu::FewBlocks none(0);
    require_verified(problem_on(*find_operator("rms_norm_rope_quant"), dtype, 1, 2048, 128));
  }
}

TEST_CASE("groups of every size have their own scales on the GPU", "[gpu][sanitize]") {
  require_gpu();
  const Operator& entry = *find_operator("rms_norm_rope_quant");
  const opbook::gpu::LaunchWatch watch;
  for (const Dtype dtype : input_dtypes) {
    for (const auto& [n, group] : {std::pair{1664, 128},
                                   {1024, 128},
                                   {4096, 128},
                                   {4096, 64},
                                   {768, 24},
                                   {256, 8},
                                   {256, 256},
                                   {4096, 512},
                                   {5120, 128},
                                   {7168, 128},
                                   {8192, 128},
                                   {16384, 128},
                                   {32768, 128},
                                   {65536, 128},
                                   {96, 1}}) {
      for (const bool with_y : {false, true}) {
        require_verified(problem_on(entry, dtype, 3, n, 64, [&](Arguments& a) {
          a.group_size = group;
          a.with_y = with_y;
        }));
        // Angles by position; and the general case.
        if (n != 4096) continue;
        require_verified(problem_on(entry, dtype, 3, n, 64, [&](Arguments& a) {
          a.group_size = group;
          a.with_y = with_y;
          a.positions = {7, 3, Dtype::int32};
        }));
        require_verified(problem_on(entry, dtype, 3, n, 64, [&](Arguments& a) {
          a.group_size = group;
          a.with_y = with_y;
          a.weight_offset = 1;
        }));
      }
    }
  }
  for (const opbook::gpu::LaunchedKernel& kernel : watch.kernels()) {
    INFO(kernel.name << ", " << kernel.registers << " registers");
    CHECK(kernel.local_bytes == 0);
  }
}

TEST_CASE("options and picked angles are right on the GPU", "[gpu][sanitize]") {
  require_gpu();
  for (const Operator& entry : operators()) {
    for (const Dtype dtype : input_dtypes) {
      for (const std::int64_t n : {256, 250}) {
        require_verified(problem_on(entry, dtype, 5, n, 64, [&](Arguments& a) {
          a.rounding = Rounding::before_weight;
          a.weight_offset = 1;
          a.positions = {7, 3, Dtype::int32};
        }));
        require_verified(problem_on(entry, dtype, 5, n, 64, [&](Arguments& a) {
          a.rounding = Rounding::before_weight;
          a.positions = {7, 5, Dtype::int64};
        }));
        require_verified(
            problem_on(entry, dtype, 5, n, 64, [&](Arguments& a) { a.weight_offset = 1; }));
      }
    }
  }
}

TEST_CASE("the GPU takes more rows than a grid has blocks in y and z", "[gpu]") {
  require_gpu();
  for (const Operator& entry : operators()) {
    for (const std::int64_t m : {65536, 70001}) {
      require_verified(problem_on(entry, Dtype::bfloat16, m, 16, 8));
    }
  }
}

TEST_CASE("the GPU takes rows that fit neither registers nor shared memory", "[gpu]") {
  require_gpu();
  for (const Operator& entry : operators()) {
    if (!takes(entry, "m")) continue;
    for (const Dtype dtype : {Dtype::float16, Dtype::float32}) {
      for (const std::int64_t n : {65536, 262144}) {
        require_verified(problem_on(entry, dtype, 2, n, 128));
      }
    }
  }
}

TEST_CASE("empty inputs launch nothing on the GPU", "[gpu]") {
  require_gpu();
  const opbook::gpu::LaunchWatch watch;
  const Rows<const float> x = contiguous_rows<const float>(nullptr, 0, 64);
  const Rows<float> y = contiguous_rows<float>(nullptr, 0, 64);
  Array w = filled("w", Dtype::float32, {64});
  const Row<const float> weight = w.row<float>();
  const RopeTables<float> none;
  ch13::gpu::rms_norm(nullptr, x, weight, y);
  ch13::gpu::layer_norm(nullptr, x, weight, weight, y);
  ch13::gpu::rms_norm_rope(nullptr, x, weight, none, y);
  CHECK(watch.launches() == 0);
}

TEST_CASE("special values go through the GPU as the formula takes them", "[gpu][sanitize]") {
  require_gpu();
  const Operator& entry = *find_operator("rms_norm_rope_quant");
  for (const Dtype dtype : input_dtypes) {
    for (const std::int64_t n : {512, 500}) {
      Arguments a = entry.defaults;
      a.dtype = dtype;
      a.m = 6;
      a.n = n;
      a.rope_dim = 64;
      a.with_y = true;
      for (const std::int64_t group : {std::int64_t{0}, n / 4}) {
        a.group_size = group;
        const Problem problem = entry.make_problem(a);
        Tensors tensors(problem.tensors);
        fill_inputs(problem, tensors, 5);
        visit_input_dtype(dtype, [&]<class T>() {
          const Rows<T> x = tensors.rows<T>("x");
          x.row(1).data[3] = from_float<T>(NAN);
          x.row(2).data[n - 1] = from_float<T>(INFINITY);
          x.row(3).data[0] = from_float<T>(-INFINITY);
          for (std::int64_t j = 0; j < n; ++j) x.row(4).data[j] = from_float<T>(0.0f);
          for (std::int64_t j = 0; j < n; ++j) x.row(5).data[j] = from_float<T>(-0.0f);
        });
        opbook::gpu::DeviceTensors device(problem.tensors);
        for (const Finding& finding :
             verify_problem(problem, tensors, run_on_device(problem, device), Twin::second_run)) {
          INFO(name_of(dtype) << " n " << n << " group " << group << ' ' << finding.plan << ' '
                              << finding.kernel << ' ' << finding.tensor << ' ' << finding.detail);
          CHECK(finding.pass);
        }
      }
    }
  }
}

TEST_CASE("a row of one value has variance 0 on the GPU, and y is the bias", "[gpu][sanitize]") {
  require_gpu();
  for (const std::int64_t n : {8, 513, 769, 1024, 5120}) {
    Array x = filled_with<bfloat16>("x", {2, n}, 1.0f), g = filled("g", Dtype::bfloat16, {n});
    Array b = filled("b", Dtype::bfloat16, {n}), y("y", Dtype::bfloat16, {2, n});
    const Mirror device_x(x), device_g(g), device_b(b), device_y(y);
    ch13::gpu::layer_norm<bfloat16>(nullptr, device_x.rows<bfloat16>(x), device_g.row<bfloat16>(g),
                                    device_b.row<bfloat16>(b), device_y.rows<bfloat16>(y));
    device_y.fetch(y);
    INFO("n " << n);
    CHECK(same_bits(y.rows<bfloat16>().row(0).data, b.raw(), b.bytes()));
    CHECK(same_bits(y.rows<bfloat16>().row(1).data, b.raw(), b.bytes()));
  }
}

TEST_CASE("the GPU refuses what the CPU refuses, before anything is launched", "[gpu]") {
  require_gpu();
  const opbook::gpu::LaunchWatch watch;
  float memory[64] = {};
  const Rows<float> x = contiguous_rows(memory, 4, 8), y = contiguous_rows(memory + 4, 4, 8);
  const Row<float> w{memory + 48, 8};
  CHECK_THROWS_MATCHES(ch13::gpu::rms_norm<float>(nullptr, x, Row<float>{memory, 7}, x),
                       ArgumentError, begins("w: got 7"));
  CHECK_THROWS_MATCHES(ch13::gpu::rms_norm<float>(nullptr, x, w, y), ArgumentError,
                       begins("y: overlaps x"));
  CHECK_THROWS_MATCHES(ch13::gpu::layer_norm<float>(nullptr, x, w, w, x, -1.0f), ArgumentError,
                       begins("eps: got -1"));
  CHECK(watch.launches() == 0);
}

TEST_CASE("more than 2^31 elements of float16 are right in the last row", "[gpu][.large]") {
  require_gpu();
  const std::int64_t m = 4194305, n = 512;
  Array last = filled("x", Dtype::float16, {1, n}), w = filled("w", Dtype::float16, {n});
  Array expected("y", Dtype::float16, {1, n}), found("y", Dtype::float16, {1, n});
  opbook::gpu::DeviceMemory x(m * n * 2), y(m * n * 2);
  opbook::gpu::fill_on_device(nullptr, x.data(), 0, x.bytes());
  opbook::gpu::copy_to_device(x.data() + (m - 1) * n * 2, last.raw(), last.bytes());
  const Mirror device_w(w), device_last(last), device_y(expected);
  ch13::gpu::rms_norm<float16>(nullptr, device_last.rows<float16>(last), device_w.row<float16>(w),
                               device_y.rows<float16>(expected));
  device_y.fetch(expected);
  ch13::gpu::rms_norm<float16>(
      nullptr, contiguous_rows(reinterpret_cast<const float16*>(x.data()), m, n),
      device_w.row<float16>(w), contiguous_rows(reinterpret_cast<float16*>(y.data()), m, n));
  opbook::gpu::copy_to_host(found.raw(), y.data() + (m - 1) * n * 2, found.bytes());
  CHECK(same_bits(expected, found));
  opbook::gpu::copy_to_host(found.raw(), y.data() + (m - 2) * n * 2, found.bytes());
  for (std::int64_t j = 0; j < n; ++j) CHECK(found.value(j) == 0);
}

TEST_CASE("more than 2^31 elements of bfloat16, zeros but the last row", "[gpu][.large]") {
  require_gpu();
  const std::int64_t m = 8388624, n = 256;
  Array ones = filled_with<bfloat16>("x", {1, n}, 1.0f), w = filled_with<bfloat16>("w", {n}, 1.0f);
  Array found("y", Dtype::bfloat16, {1, n});
  opbook::gpu::DeviceMemory x(m * n * 2), y(m * n * 2);
  opbook::gpu::fill_on_device(nullptr, x.data(), 0, x.bytes());
  opbook::gpu::copy_to_device(x.data() + (m - 1) * n * 2, ones.raw(), ones.bytes());
  const Mirror device_w(w);
  ch13::gpu::rms_norm<bfloat16>(
      nullptr, contiguous_rows(reinterpret_cast<const bfloat16*>(x.data()), m, n),
      device_w.row<bfloat16>(w), contiguous_rows(reinterpret_cast<bfloat16*>(y.data()), m, n));
  opbook::gpu::copy_to_host(found.raw(), y.data() + (m - 1) * n * 2, found.bytes());
  for (std::int64_t j = 0; j < n; ++j) CHECK(std::abs(found.value(j) - 1) < 0x1p-8);
  for (const std::int64_t row : {std::int64_t{0}, m / 2, m - 2}) {
    opbook::gpu::copy_to_host(found.raw(), y.data() + row * n * 2, found.bytes());
    for (std::int64_t j = 0; j < n; ++j) CHECK(found.value(j) == 0);
  }
}
