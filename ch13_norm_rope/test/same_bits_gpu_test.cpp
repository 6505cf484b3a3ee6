// A row has the same bits on a CUDA device wherever it lies and whatever lies beside it: in any
// batch, on any base, with any stride, in place, and by whichever kernel.

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "ch13_norm_rope/rms_norm.hpp"
#include "ch13_norm_rope/rms_norm_rope_quant.hpp"
#include "ch13_norm_rope/rope.hpp"
#include "ch13_norm_rope/test/operator_test.hpp"
#include "common/cuda/few_blocks.hpp"
#include "common/cuda/late_data.hpp"
#include "common/cuda/probe.hpp"
#include "common/test/fused_on_device.hpp"
#include "common/test/mirror.hpp"
#include "common/test/require_gpu.hpp"

using namespace opbook;
using namespace opbook::ch13;

TEMPLATE_TEST_CASE("a row has the same bits in another batch, on another base, and in place",
                   "[gpu][sanitize]", float, float16, bfloat16) {
  require_gpu();
  using T = TestType;
  const std::int64_t n = GENERATE(64, 768, 4096, 8192);
  INFO("n " << n);
  const std::int64_t m = 5;
  Array x = filled("x", dtype_of<T>, {m, n}), w = filled("w", dtype_of<T>, {n});
  Array all("y", dtype_of<T>, {m, n}), other("y", dtype_of<T>, {m, n});
  const Mirror device_x(x), device_w(w), device_y(all);
  ch13::gpu::rms_norm<T>(nullptr, device_x.rows<T>(x), device_w.row<T>(w), device_y.rows<T>(all));
  device_y.fetch(all);

  SECTION("alone") {
    const Mirror fresh(other);
    for (std::int64_t i = 0; i < m; ++i) {
      const auto row_of = [&](const Mirror& rows) {
        return contiguous_rows(rows.rows<T>(x).row(i).data, 1, n);
      };
      ch13::gpu::rms_norm<T>(nullptr, row_of(device_x), device_w.row<T>(w), row_of(fresh));
    }
    fresh.fetch(other);
    CHECK(same_bits(all, other));
  }
  SECTION("by the kernel for many rows") {
    const opbook::gpu::FewBlocks none(0);
    ch13::gpu::rms_norm<T>(nullptr, device_x.rows<T>(x), device_w.row<T>(w), device_y.rows<T>(all));
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

TEST_CASE("rows have the same bits by the kernels for few and for many, of every operator",
          "[gpu][sanitize]") {
  require_gpu();
  for (const Operator& entry : operators()) {
    for (const Dtype dtype : input_dtypes) {
      for (const std::int64_t n : {256, 1024, 2048, 3072, 4096, 5120, 7168, 16384}) {
        Arguments a = entry.defaults;
        a.dtype = dtype;
        a.m = a.tokens = 6;
        a.n = n;
        a.heads = n / 256;
        a.rope_dim = 128;
        const Problem problem = entry.make_problem(a);
        FusedOnDevice plan(problem);
        const std::vector<std::byte> by_few = plan.outputs();
        const opbook::gpu::FewBlocks none(0);
        const bool same = by_few == plan.outputs();
        INFO(entry.name << ' ' << name_of(dtype) << ", n " << n);
        CHECK(same);
      }
    }
  }
}

TEST_CASE("blocks that take rows in turn wait for each, however late it comes", "[gpu]") {
  require_gpu();
  using T = bfloat16;
  const std::int64_t n = 4096, half = 64;
  const std::int64_t m = 15 * opbook::gpu::probe_device().device->sm_count;  // two or three a block
  const Array x = filled("x", dtype_of<T>, {m, n}), w = filled("w", dtype_of<T>, {n});
  const Array cos = filled("cos", dtype_of<T>, {m, half}),
              sin = filled("sin", dtype_of<T>, {m, half});
  const Mirror near(x), device_w(w), device_cos(cos), device_sin(sin);
  const opbook::gpu::HostMemory far(x.bytes());
  std::memcpy(far.data(), x.raw(), static_cast<std::size_t>(x.bytes()));
  struct Result {
    Array q, scale;
  };
  const auto quantised = [&](const std::byte* rows) {
    Array q("q", Dtype::float8_e4m3fn, {m, n}), scale("scale", Dtype::float32, {m, 1});
    const Mirror device_q(q), device_scale(scale);
    ch13::gpu::rms_norm_rope_quant<T>(
        nullptr, contiguous_rows(reinterpret_cast<const T*>(rows), m, n), device_w.row<T>(w),
        {device_cos.rows<const T>(cos), device_sin.rows<const T>(sin)},
        {device_q.rows<float8_e4m3fn>(q), device_scale.rows<float>(scale)});
    device_q.fetch(q);
    device_scale.fetch(scale);
    return Result{std::move(q), std::move(scale)};
  };
  const Result late = quantised(far.data()), expected = quantised(near.raw());
  CHECK(same_bits(late.q, expected.q));
  CHECK(same_bits(late.scale, expected.scale));
}

TEST_CASE("a row that becomes infinite has an infinite scale, whichever kernel quantises it",
          "[gpu][sanitize]") {
  require_gpu();
  using T = bfloat16;
  const std::int64_t n = 7168;  // less than the threads of its block would hold
  Array x = filled_with<T>("x", {1, n}, 0x1p-80f), w = filled_with<T>("w", {n}, 1.0f);
  for (const std::int64_t offset : {0, 1}) {
    Array q("q", Dtype::float8_e4m3fn, {1, n}), scale("scale", Dtype::float32, {1, 1});
    const Mirror device_x(x, offset), device_w(w), device_q(q), device_scale(scale);
    ch13::gpu::rms_norm_rope_quant<T>(
        nullptr, device_x.rows<T>(x), device_w.row<T>(w), {},
        {device_q.rows<float8_e4m3fn>(q), device_scale.rows<float>(scale)}, {{.eps = 0}});
    device_scale.fetch(scale);
    INFO("offset " << offset);
    CHECK(scale.value(0) == INFINITY);
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
