#pragma once

// Heads on a CUDA device in every layout that must make no difference: what the GPU's tests run.

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <vector>

#include "ch28_design/qk_norm_rope_quant.hpp"
#include "common/array.hpp"
#include "common/cuda/device.hpp"
#include "common/random.hpp"
#include "common/rope_table.hpp"
#include "common/test/mirror.hpp"

namespace opbook::ch28 {

inline bool same_bits(const void* a, const void* b, std::int64_t bytes) {
  return std::memcmp(a, b, static_cast<std::size_t>(bytes)) == 0;
}

/// Heads of bfloat16 with all that they need, on the host.
struct Inputs {
  std::int64_t tokens, q_heads, kv_heads, dh, rd;
  Array x, q_weight, k_weight, cos, sin;

  Inputs(std::int64_t tokens_, std::int64_t q, std::int64_t k, std::int64_t dh_, std::int64_t rd_)
      : tokens(tokens_),
        q_heads(q),
        kv_heads(k),
        dh(dh_),
        rd(rd_),
        x("x", Dtype::bfloat16, {tokens, q + k, dh}),
        q_weight("q_weight", Dtype::bfloat16, {dh}),
        k_weight("k_weight", Dtype::bfloat16, {dh}),
        cos("cos", Dtype::float32, {tokens, rd / 2}),
        sin("sin", Dtype::float32, {tokens, rd / 2}) {
    fill_activation(x, 3);
    fill_weight(q_weight, 4);
    fill_weight(k_weight, 5);
    fill_rope_table(cos, Wave::cosine);
    fill_rope_table(sin, Wave::sine);
  }
  std::int64_t heads() const { return q_heads + kv_heads; }
  std::int64_t rows() const { return tokens * heads(); }
};

struct Result {
  Array codes, scale, y;

  explicit Result(const Inputs& in)
      : codes("codes", Dtype::float8_e4m3fn, {in.rows(), in.dh}),
        scale("scale", Dtype::float32, {in.rows()}),
        y("y", Dtype::float32, {in.rows(), in.dh}) {}
};

/// Where the run may differ without a difference in any bit.
struct Setting {
  QkOptions options = {};
  std::int64_t offset = 0;          ///< elements by which every base is off its boundary
  std::int64_t gap = 0;             ///< elements between the heads of x, of codes and of y
  std::int64_t v_heads = 0;         ///< heads that lie behind k and are not read
  bool apart = false;               ///< k in a tensor of its own
  std::int64_t first_token = 0;     ///< runs the tokens from here on alone
  std::vector<int> positions = {};  ///< rows of the tables, one a token
};

/// `array` with its rows of `cols` put `stride` apart, `extra` rows more in each group of `inner`.
template <class T>
Array spread(const Array& array, std::int64_t inner, std::int64_t stride, std::int64_t extra) {
  const std::int64_t rows = array.row_count(), cols = array.cols();
  Array wide("wide", dtype_of<T>, {rows / inner * (inner + extra) + 1, stride});
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t at = i / inner * (inner + extra) + i % inner;
    std::memcpy(wide.raw() + at * stride * size_of(dtype_of<T>),
                array.raw() + i * cols * size_of(dtype_of<T>), cols * size_of(dtype_of<T>));
  }
  return wide;
}

inline Result run(const Inputs& in, const Setting& setting = {}) {
  using T = bfloat16;
  const std::int64_t dh = in.dh, heads = in.heads(), stride = dh + setting.gap;
  const std::int64_t tokens = in.tokens - setting.first_token;
  const std::int64_t in_memory = heads + setting.v_heads;
  const Array wide_x = spread<T>(in.x, heads, stride, setting.v_heads);
  const Mirror x(wide_x, setting.offset), copy_of_x(wide_x, setting.offset + 8);
  const Mirror q_weight(in.q_weight, setting.offset), k_weight(in.k_weight, setting.offset);
  const Mirror cos(in.cos, setting.offset), sin(in.sin, setting.offset);
  Result result(in);
  Array wide_codes("codes", Dtype::float8_e4m3fn, {in.rows(), stride});
  Array wide_y("y", Dtype::float32, {in.rows(), stride});
  const Mirror codes(wide_codes, setting.offset), y(wide_y, setting.offset);
  const Mirror scale(result.scale, setting.offset);

  const auto part = [&](const Mirror& of, std::int64_t first, std::int64_t count) {
    const T* const data = of.data<T>() + (setting.first_token * in_memory + first) * stride;
    return Rows<const T>{data, tokens, count, dh, in_memory * stride, stride};
  };
  const auto table = [&](const Mirror& of) {
    const std::int64_t first = setting.positions.empty() ? setting.first_token : 0;
    return contiguous_rows<const float>(of.data<float>() + first * (in.rd / 2), in.tokens - first,
                                        in.rd / 2);
  };
  QkHeads<T> heads_in{part(x, 0, in.q_heads),
                      part(setting.apart ? copy_of_x : x, in.q_heads, in.kv_heads),
                      {q_weight.data<T>(), dh},
                      {k_weight.data<T>(), dh},
                      {table(cos), table(sin), {}}};
  opbook::gpu::DeviceMemory positions(
      static_cast<std::int64_t>(setting.positions.size() * sizeof(int)) + 4);
  if (!setting.positions.empty()) {
    opbook::gpu::copy_to_device(
        positions.data(), reinterpret_cast<const std::byte*>(setting.positions.data()), tokens * 4);
    heads_in.rope.positions =
        Row<const std::int32_t>{reinterpret_cast<const std::int32_t*>(positions.data()), tokens};
  }
  const std::int64_t rows = tokens * heads, skipped = setting.first_token * heads;
  ch28::gpu::qk_norm_rope_quant<T>(
      nullptr, heads_in,
      {strided_rows(codes.data<float8_e4m3fn>() + skipped * stride, rows, dh, stride),
       {scale.data<float>() + skipped, rows},
       strided_rows(y.data<float>() + skipped * stride, rows, dh, stride)},
      setting.options);

  codes.fetch(wide_codes);
  y.fetch(wide_y);
  scale.fetch(result.scale);
  for (std::int64_t i = 0; i < in.rows(); ++i) {
    std::memcpy(result.codes.raw() + i * dh, wide_codes.raw() + i * stride, dh);
    std::memcpy(result.y.raw() + i * dh * 4, wide_y.raw() + i * stride * 4, dh * 4);
    for (std::int64_t j = dh; j < stride; ++j) {  // what lies between the rows is still poison
      REQUIRE(static_cast<int>(wide_codes.raw()[i * stride + j]) == 0xFF);
    }
  }
  return result;
}

/// From row `first` on.
inline bool same_bits(const Result& a, const Result& b, std::int64_t first = 0) {
  const auto same = [&](const Array& one, const Array& other) {
    const std::int64_t skipped = one.bytes() / a.scale.elements() * first;
    return same_bits(one.raw() + skipped, other.raw() + skipped, one.bytes() - skipped);
  };
  return same(a.codes, b.codes) && same(a.scale, b.scale) && same(a.y, b.y);
}

}  // namespace opbook::ch28
