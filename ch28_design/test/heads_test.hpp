#pragma once

// What the tests of the operator share: inputs, room for its results, and its reference.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "ch28_design/qk_norm_rope_quant.hpp"
#include "ch28_design/reference.hpp"
#include "common/fast.hpp"
#include "common/random.hpp"
#include "common/rope_table.hpp"

namespace opbook::ch28 {

struct Shape {
  std::int64_t tokens = 3;
  std::int64_t q_heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t dh = 128;
  std::int64_t rope_dim = 128;
  std::int64_t table_rows = 0;  ///< 0: as many as tokens

  std::int64_t heads() const { return q_heads + kv_heads; }
  std::int64_t rows() const { return tokens * heads(); }
};

/// Random inputs, q and k packed in one tensor.
template <class T>
struct Inputs {
  Shape shape;
  Array x, q_weight, k_weight, cos, sin;

  explicit Inputs(const Shape& of, std::uint64_t seed = 3)
      : shape(of),
        x("x", dtype_of<T>, {of.tokens, of.heads(), of.dh}),
        q_weight("q_weight", dtype_of<T>, {of.dh}),
        k_weight("k_weight", dtype_of<T>, {of.dh}),
        cos("cos", Dtype::float32,
            {of.table_rows > 0 ? of.table_rows : of.tokens, of.rope_dim / 2}),
        sin("sin", Dtype::float32, cos.shape()) {
    fill_activation(x, seed);
    fill_weight(q_weight, seed);
    fill_weight(k_weight, seed);
    fill_rope_table(cos, Wave::cosine);
    fill_rope_table(sin, Wave::sine);
  }

  QkHeads<T> view(Positions positions = {}) const {
    const T* const data = x.data<T>();
    const auto& [tokens, q_heads, kv_heads, dh, rope_dim, table_rows] = shape;
    return {heads_of(data, tokens, shape.heads(), dh, 0, q_heads),
            heads_of(data, tokens, shape.heads(), dh, q_heads, kv_heads),
            q_weight.row<T>(),
            k_weight.row<T>(),
            {cos.rows<float>(), sin.rows<float>(), positions}};
  }
  T& at(std::int64_t row, std::int64_t column) { return x.data<T>()[row * shape.dh + column]; }
};

struct Outputs {
  Array codes, scale, y;

  explicit Outputs(const Shape& of, std::int64_t offset = 0)
      : codes("codes", Dtype::float8_e4m3fn, {of.tokens, of.heads(), of.dh}, offset),
        scale("scale", Dtype::float32, {of.rows()}, offset),
        y("y", Dtype::float32, {of.tokens, of.heads(), of.dh}, offset) {}

  QuantisedHeads view(bool with_y = true) {
    return {codes.rows<float8_e4m3fn>(), scale.row<float>(),
            with_y ? y.rows<float>() : Rows<float>{}};
  }
  std::uint8_t code(std::int64_t i) const { return codes.data<float8_e4m3fn>()[i].bits; }
};

template <class T>
Outputs run(const QkHeads<T>& in, const Shape& shape, const QkOptions& options = {},
            Stores stores = Stores::automatic, std::int64_t offset = 0) {
  Outputs outputs(shape, offset);
  Fast fast(stores);
  cpu::qk_norm_rope_quant(fast, in, outputs.view(), options);
  CHECK(outputs.codes.guards_intact());
  CHECK(outputs.scale.guards_intact());
  CHECK(outputs.y.guards_intact());
  return outputs;
}
template <class T>
Outputs run(const Inputs<T>& inputs, const QkOptions& options = {}, Positions positions = {}) {
  return run(inputs.view(positions), inputs.shape, options);
}

inline bool same_bits(const Array& a, const Array& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}
inline bool same_bits(const Outputs& a, const Outputs& b) {
  return same_bits(a.codes, b.codes) && same_bits(a.scale, b.scale) && same_bits(a.y, b.y);
}
inline bool untouched(const Array& array) {
  return std::all_of(array.raw(), array.raw() + array.bytes(),
                     [](std::byte byte) { return byte == std::byte{0xFF}; });
}

/// y against the reference; scales and codes against quantising that y, to the bit.
template <class T>
void require_right(const Outputs& result, const Inputs<T>& in, const QkOptions& options = {},
                   const Array* positions = nullptr) {
  const Shape& s = in.shape;
  const reference::Reference y =
      reference::y({in.x, s.tokens, s.q_heads, s.kv_heads, &in.q_weight, &in.k_weight, options.eps},
                   {in.cos, in.sin, positions});
  require(compare(result.y, y.expected, y.tolerance_ulp));
  const reference::Quantisation expected = reference::quantise(result.y);
  require(compare_bits(result.scale, expected.scale));
  require(compare_bits(result.codes, expected.codes));
}

template <class Index>
Positions as_positions(const std::vector<Index>& rows) {
  return Row<const Index>{rows.data(), static_cast<std::int64_t>(rows.size())};
}

/// For CHECK_THROWS_MATCHES: an exception whose text begins so.
inline auto begins(const std::string& text) {
  return Catch::Matchers::MessageMatches(Catch::Matchers::StartsWith(text));
}

}  // namespace opbook::ch28
