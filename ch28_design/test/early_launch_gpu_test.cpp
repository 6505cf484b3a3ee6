// Design D's kernel for few rows is launched before the one ahead of it has ended: that it waits
// for what it reads.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "ch28_design/our_blocks.hpp"
#include "ch28_design/qk_norm_rope_quant.hpp"
#include "common/array.hpp"
#include "common/cuda/device.hpp"
#include "common/cuda/graph.hpp"
#include "common/test/mirror.hpp"
#include "common/test/require_gpu.hpp"

using namespace opbook;
using namespace opbook::ch28;

namespace {

constexpr std::int64_t q_heads = 32, kv_heads = 8, heads = q_heads + kv_heads, dh = 128;

/// Launches of the operator on heads of ones, each of which takes y of the one before, of a token's
/// last head, for the token's cosines and sines. The pairs of a head, as complex numbers, are then
/// 1 + i: each launch multiplies by it what the one before wrote.
class Chain {
 public:
  static constexpr int launches = 200;

  explicit Chain(std::int64_t tokens)
      : tokens_(tokens), ones_(ones(tokens)), y_("y", Dtype::float32, {tokens * heads, dh}) {}

  void queue(opbook::gpu::Stream stream) const {
    for (int i = 0; i < launches; i += 2) {
      launch(stream, even_, odd_);
      launch(stream, odd_, even_);
    }
  }

  /// Angles of 0: cosines of 1, sines of 0.
  void begin() {
    for (std::int64_t i = 0; i < y_.elements(); ++i) y_.data<float>()[i] = is_cos(i) ? 1.0f : 0.0f;
    opbook::gpu::copy_to_device(even_.raw(), y_.raw(), y_.bytes());
  }

  /// Elements of the last y that are not those of (1 + i)^200 = 2^100: the arithmetic is exact.
  std::int64_t wrong() {
    opbook::gpu::synchronise();
    even_.fetch(y_);
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < y_.elements(); ++i) {
      count += y_.value(i) == (is_cos(i) ? 0x1p100 : 0.0) ? 0 : 1;
    }
    return count;
  }

 private:
  static Array ones(std::int64_t tokens) {
    Array array("x", Dtype::bfloat16, {tokens, heads, dh});
    std::fill_n(array.data<bfloat16>(), array.elements(), from_float<bfloat16>(1.0f));
    return array;
  }
  static bool is_cos(std::int64_t element) { return element % dh < dh / 2; }

  void launch(opbook::gpu::Stream stream, const Mirror& before, const Mirror& after) const {
    const auto* const x = ones_.data<const bfloat16>();
    const Row<const bfloat16> weight{x, dh};
    const float* const last_head = before.data<const float>() + (heads - 1) * dh;
    const auto table = [&](const float* first) {
      return strided_rows(first, tokens_, dh / 2, heads * dh);
    };
    QkOptions exact;
    exact.eps = 0.0f;
    ch28::gpu::qk_norm_rope_quant<bfloat16>(stream,
                                            {heads_of(x, tokens_, heads, dh, 0, q_heads),
                                             heads_of(x, tokens_, heads, dh, q_heads, kv_heads),
                                             weight,
                                             weight,
                                             {table(last_head), table(last_head + dh / 2), {}}},
                                            {codes_.rows<float8_e4m3fn>(y_),
                                             {scale_.data<float>(), y_.row_count()},
                                             after.rows<float>(y_)},
                                            exact);
  }

  std::int64_t tokens_;
  Mirror ones_;
  Array y_;
  Mirror even_{y_}, odd_{y_};  // even: before the first launch, and after 2, 4, ...
  Mirror codes_{Array("codes", Dtype::float8_e4m3fn, {tokens_ * heads, dh})};
  Mirror scale_{Array("scale", Dtype::float32, {tokens_ * heads})};
};

}  // namespace

TEST_CASE("design D launched early waits for the one that it depends on", "[gpu][sanitize]") {
  // Without its wait a launch is there while the one before it still waits for memory, and reads
  // the angles of two launches ago, or writes over those that the one before is to read. Either way
  // factors of 1 + i are missed or counted twice, and no later launch can make up for them. In a
  // graph launches follow each other the fastest.
  require_gpu();
  for (const std::int64_t tokens : {1, 8}) {
    REQUIRE(tokens * heads <= our_few_rows);  // which are launched early
    Chain chain(tokens);
    const auto queue = [&](opbook::gpu::Stream stream) { chain.queue(stream); };
    const opbook::gpu::Graph graph(queue);
    for (int pass = 0; pass < 10; ++pass) {
      INFO(tokens << " tokens, pass " << pass);
      chain.begin();
      queue(nullptr);
      CHECK(chain.wrong() == 0);
      chain.begin();
      graph.launch(nullptr);
      CHECK(chain.wrong() == 0);
    }
  }
}
