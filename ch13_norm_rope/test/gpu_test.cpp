// The operators on a CUDA device, against the double-precision reference. Tests tagged [sanitize]
// reach every kernel and branch on small shapes: scripts/sanitize.sh runs them under
// compute-sanitizer. Those tagged [large] need most of a large card's memory.

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ch13_norm_rope/add_rms_norm.hpp"
#include "ch13_norm_rope/chapter.hpp"
#include "ch13_norm_rope/layer_norm.hpp"
#include "ch13_norm_rope/operators.hpp"
#include "ch13_norm_rope/rms_norm_rope_quant.hpp"
#include "ch13_norm_rope/rope.hpp"
#include "ch13_norm_rope/test/operator_test.hpp"
#include "common/cuda/bench_on_device.hpp"
#include "common/cuda/device_tensors.hpp"
#include "common/cuda/few_blocks.hpp"
#include "common/cuda/launch_watch.hpp"
#include "common/cuda/positions.hpp"
#include "common/cuda/probe.hpp"
#include "common/test/require_gpu.hpp"

using namespace opbook;
using namespace opbook::ch13;

namespace {

/// An array's elements on the device; bases lie as far off a boundary as the array's.
class Mirror {
 public:
  explicit Mirror(const Array& array, std::int64_t offset_elements = 0)
      : offset_(offset_elements * size_of(array.dtype())), memory_(array.bytes() + offset_ + 256) {
    opbook::gpu::copy_to_device(raw(), array.raw(), array.bytes());
  }
  std::byte* raw() const { return memory_.data() + offset_; }
  void fetch(Array& array) const { opbook::gpu::copy_to_host(array.raw(), raw(), array.bytes()); }
  template <class T>
  Rows<T> rows(const Array& array) const {
    return contiguous_rows(reinterpret_cast<T*>(raw()), array.row_count(), array.cols());
  }
  template <class T>
  Row<T> row(const Array& array) const {
    return {reinterpret_cast<T*>(raw()), array.elements()};
  }

 private:
  std::int64_t offset_;
  opbook::gpu::DeviceMemory memory_;
};

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

TEST_CASE("groups of every size have their own scales on the GPU", "[gpu][sanitize]") {
  require_gpu();
  const Operator& entry = *find_operator("rms_norm_rope_quant");
  for (const Dtype dtype : input_dtypes) {
    for (const auto& [n, group] : {std::pair{1664, 128},
                                   {4096, 128},
                                   {4096, 64},
                                   {768, 24},
                                   {256, 8},
                                   {256, 256},
                                   {4096, 512},
                                   {65536, 128},
                                   {96, 1}}) {
      for (const bool with_y : {false, true}) {
        require_verified(problem_on(entry, dtype, 3, n, 64, [&](Arguments& a) {
          a.group_size = group;
          a.with_y = with_y;
        }));
      }
    }
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

TEMPLATE_TEST_CASE("a row has the same bits in another batch, on another base, and in place",
                   "[gpu][sanitize]", float, float16, bfloat16) {
  require_gpu();
  using T = TestType;
  for (const std::int64_t n : {64, 768, 4096, 8192}) {
    INFO("n " << n);
    const std::int64_t m = 5;
    Array x = filled("x", dtype_of<T>, {m, n}), w = filled("w", dtype_of<T>, {n});
    Array all("y", dtype_of<T>, {m, n}), other("y", dtype_of<T>, {m, n});
    const Mirror device_x(x), device_w(w), device_y(all);
    ch13::gpu::rms_norm<T>(nullptr, device_x.rows<T>(x), device_w.row<T>(w), device_y.rows<T>(all));
    device_y.fetch(all);

    SECTION("alone") {
      const Rows<T> last = contiguous_rows(device_x.rows<T>(x).row(m - 1).data, 1, n);
      const Rows<T> out = contiguous_rows(device_y.rows<T>(all).row(0).data, 1, n);
      ch13::gpu::rms_norm<T>(nullptr, last, device_w.row<T>(w), out);
      device_y.fetch(other);
      CHECK(same_bits(other.rows<T>().row(0).data, all.rows<T>().row(m - 1).data, n * sizeof(T)));
    }
    SECTION("by the kernel for many rows") {
      const opbook::gpu::FewBlocks none(0);
      ch13::gpu::rms_norm<T>(nullptr, device_x.rows<T>(x), device_w.row<T>(w),
                             device_y.rows<T>(all));
      device_y.fetch(other);
      CHECK(same_bits(all, other));
    }
    SECTION("on bases that nothing is aligned to") {
      const Mirror odd_x(x, 1), odd_w(w, 1), odd_y(other, 1);
      ch13::gpu::rms_norm<T>(nullptr, odd_x.rows<T>(x), odd_w.row<T>(w), odd_y.rows<T>(other));
      odd_y.fetch(other);
      CHECK(same_bits(all, other));
    }
    SECTION("in place") {
      ch13::gpu::rms_norm<T>(nullptr, device_x.rows<T>(x), device_w.row<T>(w), device_x.rows<T>(x));
      device_x.fetch(other);
      CHECK(same_bits(all, other));
    }
    SECTION("with gaps between its rows") {
      Array wide = filled("x", dtype_of<T>, {m, n + 16});
      for (std::int64_t i = 0; i < m; ++i) {
        std::memcpy(wide.rows<T>().row(i).data, x.rows<T>().row(i).data, n * sizeof(T));
      }
      const Mirror device_wide(wide);
      const Rows<T> rows = strided_rows(device_wide.rows<T>(wide).data, m, n, n + 16);
      ch13::gpu::rms_norm<T>(nullptr, rows, device_w.row<T>(w), device_y.rows<T>(all));
      device_y.fetch(other);
      CHECK(same_bits(all, other));
    }
  }
}

TEST_CASE("an operator launched early waits for the one that it depends on", "[gpu][sanitize]") {
  require_gpu();
  using T = float;
  const std::int64_t n = 4096;
  Array x = filled("x", Dtype::float32, {1, n}), w = filled("w", Dtype::float32, {n});
  Array last("y", Dtype::float32, {1, n}), expected("y", Dtype::float32, {1, n});
  const Mirror device_w(w), a(x), b(x), sums(x);
  // Each normalises and adds what the one before wrote; a row read too early shows in the last.
  const auto run = [&](bool one_by_one, Array& result) {
    opbook::gpu::copy_to_device(a.raw(), x.raw(), x.bytes());
    for (int i = 0; i < 200; ++i) {
      const Mirror &from = i % 2 == 0 ? a : b, &to = i % 2 == 0 ? b : a;
      ch13::gpu::add_rms_norm<T>(nullptr, from.rows<T>(x), from.rows<T>(x), device_w.row<T>(w),
                                 sums.rows<T>(x), to.rows<T>(x));
      if (one_by_one) opbook::gpu::synchronise();
    }
    opbook::gpu::synchronise();
    a.fetch(result);
  };
  run(true, expected);
  run(false, last);
  CHECK(same_bits(last, expected));
}

TEMPLATE_TEST_CASE("norm, rotation and quantisation have the same bits on any base and in place",
                   "[gpu][sanitize]", float, float16, bfloat16) {
  require_gpu();
  using T = TestType;
  for (const std::int64_t n : {256, 4096}) {
    const std::int64_t m = 4, half = 64;
    Array x = filled("x", dtype_of<T>, {m, n}), w = filled("w", dtype_of<T>, {n});
    Array cos = filled("cos", dtype_of<T>, {m, half}), sin = filled("sin", dtype_of<T>, {m, half});
    const Mirror device_w(w), device_cos(cos), device_sin(sin);
    const RopeTables<T> tables{device_cos.rows<T>(cos), device_sin.rows<T>(sin)};
    struct Result {
      Array y, q, scale;
    };
    const auto run = [&](std::int64_t offset, bool in_place, std::int64_t group) {
      Result result{Array("y", dtype_of<T>, {m, n}), Array("q", Dtype::float8_e4m3fn, {m, n}),
                    Array("scale", Dtype::float32, {m, group > 0 ? n / group : 1})};
      const Mirror device_x(x, offset), device_y(result.y, offset), device_q(result.q, offset);
      const Mirror device_scale(result.scale);
      const Mirror& out = in_place ? device_x : device_y;
      ch13::gpu::rms_norm_rope_quant<T>(
          nullptr, device_x.rows<T>(x), device_w.row<T>(w), tables,
          {device_q.rows<float8_e4m3fn>(result.q), device_scale.rows<float>(result.scale),
           out.rows<T>(result.y)},
          {{}, group});
      out.fetch(result.y);
      device_q.fetch(result.q);
      device_scale.fetch(result.scale);
      return result;
    };
    for (const std::int64_t group : {0, 128}) {
      const Result plain = run(0, false, group);
      {
        const opbook::gpu::FewBlocks none(0);
        CHECK(same_bits(run(0, false, group).q, plain.q));
      }
      for (const auto& [offset, in_place] : {std::pair{1, false}, {0, true}, {1, true}}) {
        INFO("n " << n << " group " << group << " offset " << offset << " in place " << in_place);
        const Result same = run(offset, in_place, group);
        CHECK(same_bits(plain.y, same.y));
        CHECK(same_bits(plain.q, same.q));
        CHECK(same_bits(plain.scale, same.scale));
      }
    }
  }
}

TEST_CASE("q and k as slices of a packed tensor turn on the GPU, and v stays", "[gpu][sanitize]") {
  require_gpu();
  using T = bfloat16;
  const std::int64_t tokens = 5, heads = 4, kv = 2, dh = 128, packed = (heads + 2 * kv) * dh;
  Array qkv = filled("qkv", Dtype::bfloat16, {tokens, packed});
  Array cos = filled("cos", Dtype::bfloat16, {tokens, dh / 2});
  Array sin = filled("sin", Dtype::bfloat16, {tokens, dh / 2});
  const Mirror device(qkv), device_cos(cos), device_sin(sin);
  const RopeTables<T> tables{device_cos.rows<T>(cos), device_sin.rows<T>(sin)};
  T* const base = device.rows<T>(qkv).data;
  const Rows<T> q{base, tokens, heads, dh, packed, dh};
  const Rows<T> k{base + heads * dh, tokens, kv, dh, packed, dh};
  ch13::gpu::rope<T>(nullptr, q, tables, q);
  ch13::gpu::rope<T>(nullptr, k, tables, k);
  Array turned("turned", Dtype::bfloat16, {tokens, packed});
  device.fetch(turned);

  for (std::int64_t token = 0; token < tokens; ++token) {
    for (std::int64_t head = 0; head < heads + 2 * kv; ++head) {
      Array contiguous("x", Dtype::bfloat16, {1, dh});
      const T* const before = qkv.rows<T>().row(token).data + head * dh;
      const T* const after = turned.rows<T>().row(token).data + head * dh;
      std::memcpy(contiguous.raw(), before, dh * sizeof(T));
      if (head < heads + kv) {
        const Mirror copy(contiguous);
        const RopeTables<T> one{
            contiguous_rows<const T>(device_cos.rows<T>(cos).row(token).data, 1, dh / 2),
            contiguous_rows<const T>(device_sin.rows<T>(sin).row(token).data, 1, dh / 2)};
        ch13::gpu::rope<T>(nullptr, copy.rows<T>(contiguous), one, copy.rows<T>(contiguous));
        copy.fetch(contiguous);
      }
      INFO("token " << token << " head " << head);
      CHECK(same_bits(after, contiguous.raw(), dh * sizeof(T)));
    }
  }
}

TEST_CASE("a position beyond the tables gives NaN in its row and in no other, on the GPU",
          "[gpu][sanitize]") {
  require_gpu();
  for (const std::int64_t n : {256, 250}) {  // held, and element by element
    const std::int64_t m = 4, half = 32;
    Array x = filled("x", Dtype::float32, {m, n}), w = filled("w", Dtype::float32, {n});
    Array cos = filled("cos", Dtype::float32, {3, half});
    Array sin = filled("sin", Dtype::float32, {3, half});
    Array positions("positions", Dtype::int64, {m}), y("y", Dtype::float32, {m, n});
    const std::int64_t picked[] = {2, 3, -1, 0};
    std::memcpy(positions.raw(), picked, sizeof picked);
    const Mirror device_x(x), device_w(w), device_cos(cos), device_sin(sin), device_y(y);
    const Mirror device_positions(positions);
    const Row<std::int64_t> rows = device_positions.row<std::int64_t>(positions);
    const RopeTables<float> tables{device_cos.rows<float>(cos), device_sin.rows<float>(sin),
                                   Row<const std::int64_t>(rows)};
    ch13::gpu::rms_norm_rope<float>(nullptr, device_x.rows<float>(x), device_w.row<float>(w),
                                    tables, device_y.rows<float>(y));
    device_y.fetch(y);
    for (std::int64_t i = 0; i < m; ++i) {
      const bool there = picked[i] >= 0 && picked[i] < 3;
      for (std::int64_t j = 0; j < n; ++j) {
        const bool turns = j >= n - 2 * half;
        INFO("n " << n << " row " << i << " column " << j);
        REQUIRE(std::isnan(y.value(i * n + j)) == (turns && !there));
      }
    }
  }
}

TEST_CASE("who asks before has a position beyond the tables refused, on the GPU", "[gpu]") {
  require_gpu();
  const Array table = filled("cos", Dtype::float32, {3, 4});
  const Mirror device_table(table);
  for (const Dtype dtype : {Dtype::int32, Dtype::int64}) {
    Array positions("positions", dtype, {3});
    const auto set = [&](std::int64_t token, std::int64_t row) {
      if (dtype == Dtype::int32) {
        reinterpret_cast<std::int32_t*>(positions.raw())[token] = static_cast<std::int32_t>(row);
      } else {
        reinterpret_cast<std::int64_t*>(positions.raw())[token] = row;
      }
    };
    const auto refusal = [&]() -> std::string {
      const Mirror device(positions);
      RopeTables<float> tables{device_table.rows<float>(table), device_table.rows<float>(table)};
      if (dtype == Dtype::int32) {
        tables.positions = Row<const std::int32_t>(device.row<std::int32_t>(positions));
      } else {
        tables.positions = Row<const std::int64_t>(device.row<std::int64_t>(positions));
      }
      try {
        opbook::gpu::require_positions_within(nullptr, tables);
      } catch (const ArgumentError& error) {
        return error.what();
      }
      return "";
    };
    for (std::int64_t token = 0; token < 3; ++token) set(token, token);
    CHECK(refusal() == "");
    set(1, 3);
    CHECK(refusal() ==
          "positions: got 3 for token 1; allowed: 0 up to, not including, 3, the rows of cos");
    set(1, -1);
    CHECK(refusal() ==
          "positions: got -1 for token 1; allowed: 0 up to, not including, 3, the rows of cos");
  }
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

TEST_CASE("an operator of few bytes is timed in a graph too, as a share of one read", "[gpu]") {
  require_gpu();
  const opbook::gpu::DeviceInfo device = *opbook::gpu::probe_device().device;
  MachineInfo machine;
  machine.llc_bytes = device.l2_bytes;
  machine.memory_bytes = device.memory_bytes;
  const TimingOptions few_samples{.warmup = 1, .min_samples = 6, .max_samples = 6};
  const auto timed = [&](std::int64_t rows) {
    const GivenFlags sized = {{"--m", std::to_string(rows)}, {"--n", "4096"}};
    return opbook::gpu::bench_on_device(ch13::chapter().make_problem("rms_norm", sized, {}),
                                        machine, few_samples);
  };
  const std::vector<ResultRow> one = timed(1);
  REQUIRE(one.size() == 3);
  CHECK(one[2].plan == "fused");
  CHECK(one[2].temperature == "hot");
  CHECK(one[2].roof == "one read");
  CHECK(one[2].median_us < one[1].median_us);  // no launch from the host is waited for
  CHECK(one[2].share_of_roof > 0);
  CHECK(one[2].share_of_roof < 1.2);  // nothing takes less than its one read
  CHECK(timed(256).size() == 2);
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
