// The operator on a CUDA device, against the double-precision reference. Tests tagged [sanitize]
// reach every kernel and branch on small shapes: scripts/sanitize.sh runs them under
// compute-sanitizer. Those tagged [large] need most of a large card's memory.

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "ch28_design/problem.hpp"
#include "ch28_design/qk_norm_rope_quant.hpp"
#include "ch28_design/reference.hpp"
#include "ch28_design/test/gpu_heads.hpp"
#include "common/cuda/device_tensors.hpp"
#include "common/cuda/launch_watch.hpp"
#include "common/test/require_gpu.hpp"
#include "common/verify_problem.hpp"

using namespace opbook;
using namespace opbook::ch28;

namespace {

constexpr Dtype dtypes[] = {Dtype::bfloat16, Dtype::float16};

/// One size, of which `vary` may change the rest.
RunArguments sized(std::int64_t tokens, std::int64_t q_heads, std::int64_t kv_heads,
                   std::int64_t head_dim, std::int64_t rope_dim,
                   const std::function<void(RunArguments&)>& vary = nullptr) {
  RunArguments a;
  a.sizes.tokens = tokens;
  a.sizes.q_heads = q_heads;
  a.sizes.kv_heads = kv_heads;
  a.sizes.head_dim = head_dim;
  a.sizes.rope_dim = rope_dim;
  if (vary) vary(a);
  return a;
}

/// Both plans: every kernel against its reference, and a second run to the same bits.
void require_verified(const RunArguments& a, std::int64_t offset = 0,
                      const std::function<void(Tensors&)>& change = nullptr) {
  const Problem problem = make_problem(a);
  Tensors tensors(problem.tensors);
  fill_inputs(problem, tensors, 11);
  if (change) change(tensors);
  opbook::gpu::DeviceTensors device(problem.tensors, offset);
  for (const Finding& finding :
       verify_problem(problem, tensors, run_on_device(problem, device), Twin::second_run)) {
    INFO("design " << name_of(a.design) << ", " << opbook::name_of(a.options.dtype) << ", "
                   << a.sizes.tokens << " tokens of " << a.sizes.q_heads << " + "
                   << a.sizes.kv_heads << " heads of " << a.sizes.head_dim << ", "
                   << a.sizes.turned() << " turn, offset " << offset << ": " << finding.plan << ' '
                   << finding.kernel << ' ' << finding.tensor << ' ' << finding.detail);
    REQUIRE(finding.pass);
  }
}

QkOptions design(Design chosen, std::int64_t rows_per_block = 8) {
  QkOptions options;
  options.design = chosen;
  options.rows_per_block = rows_per_block;
  return options;
}

auto begins(const std::string& text) {
  return Catch::Matchers::MessageMatches(Catch::Matchers::StartsWith(text));
}

}  // namespace

TEST_CASE("every kernel of every design is right and keeps all in registers", "[gpu][sanitize]") {
  require_gpu();
  const opbook::gpu::LaunchWatch watch;
  for (const Design design : all_designs) {
    for (const Dtype dtype : dtypes) {
      for (const auto& [dh, rd] : {std::pair{64, 64},
                                   {96, 96},
                                   {128, 128},
                                   {192, 192},
                                   {256, 256},
                                   {64, 32},
                                   {96, 32},
                                   {96, 80},  // the second piece of some lanes, not of others
                                   {128, 64},
                                   {192, 128},
                                   {256, 64},
                                   // Element by element: widths that nobody holds, a pair whose
                                   // columns lie on no boundary, and heads of several passes.
                                   {128, 40},
                                   {80, 80},
                                   {2, 2},
                                   {6, 4},
                                   {250, 250},
                                   {320, 64},
                                   {1000, 1000}}) {
        const auto verify = [&, dh = dh, rd = rd](std::int64_t tokens) {
          require_verified(sized(tokens, 3, 2, dh, rd, [&](RunArguments& a) {
            a.design = design;
            a.options.dtype = dtype;
            a.options.with_y = true;
            a.sizes.rows_per_block = 7;
          }));
        };
        verify(5);
        // D has another kernel for more rows; widths that nobody holds have the same one.
        if (design == Design::D && dh <= 256 && rd % 16 == 0) verify(823);
      }
    }
  }
  for (const opbook::gpu::LaunchedKernel& kernel : watch.kernels()) {
    INFO(kernel.name << ", " << kernel.registers << " registers");
    CHECK(kernel.local_bytes == 0);
  }
  CHECK(watch.kernels().size() > 120);
}

TEST_CASE("any mix of heads, layout and base is right on the GPU", "[gpu][sanitize]") {
  require_gpu();
  std::int64_t offset = 0;
  for (const auto& [q, k] :
       {std::pair{32, 8}, {28, 4}, {32, 1}, {1, 1}, {5, 0}, {0, 3}, {1, 0}, {64, 64}}) {
    for (const Layout layout : {Layout::packed, Layout::qkv}) {
      for (const Design design : all_designs) {
        require_verified(sized(3, q, k, 128, 128,
                               [&](RunArguments& a) {
                                 a.design = design;
                                 a.layout = layout;
                                 a.sizes.rows_per_block = 64;
                               }),
                         offset);
        offset = (offset + 1) % 3;
      }
    }
  }
}

TEST_CASE("positions that start again pick their angles on the GPU", "[gpu][sanitize]") {
  require_gpu();
  for (const Dtype index : {Dtype::int32, Dtype::int64}) {
    for (const auto& [dh, rd] : {std::pair{128, 128}, {128, 64}, {80, 80}}) {
      for (const Design design : all_designs) {
        require_verified(sized(7, 4, 2, dh, rd, [&](RunArguments& a) {
          a.design = design;
          a.options.positions = {9, 2, index};
        }));
      }
    }
  }
}

TEST_CASE("more blocks than a grid has in y and z, and more rows than all of them hold at once",
          "[gpu]") {
  require_gpu();
  for (const std::int64_t tokens : {65536, 70001}) {
    for (const Design design : all_designs) {
      require_verified(sized(tokens, 1, 1, 64, 64, [&](RunArguments& a) { a.design = design; }));
    }
  }
  require_verified(sized(4096, 32, 8, 128, 128));
}

TEST_CASE("every design gives a head the same bits, and so does any batch, base and stride",
          "[gpu][sanitize]") {
  require_gpu();
  for (const auto& [dh, rd] : {std::pair{64, 64},
                               {96, 96},
                               {128, 128},
                               {192, 192},
                               {256, 256},
                               {128, 64},
                               {96, 80},
                               {96, 0}}) {
    INFO("dh " << dh << ", " << rd << " turn");
    const Inputs in(5, 6, 3, dh, rd);
    const Result expected = run(in, {design(Design::D)});
    CHECK(same_bits(expected, run(in, {design(Design::A)})));
    CHECK(same_bits(expected, run(in, {design(Design::C)})));
    for (const std::int64_t rows : {2, 5, 8, 33, 64}) {
      CHECK(same_bits(expected, run(in, {design(Design::B, rows)})));
    }
    for (const Design chosen : all_designs) {
      INFO("design " << name_of(chosen));
      Setting odd{design(chosen)}, gaps{design(chosen)}, uneven{design(chosen)};
      odd.offset = 1;
      gaps.gap = 16;
      gaps.v_heads = 3;
      uneven.gap = 3;
      CHECK(same_bits(expected, run(in, odd)));
      CHECK(same_bits(expected, run(in, gaps)));
      CHECK(same_bits(expected, run(in, uneven)));
      Setting apart{design(chosen)}, alone{design(chosen)};
      apart.apart = true;
      CHECK(same_bits(expected, run(in, apart)));
      alone.first_token = 3;
      CHECK(same_bits(expected, run(in, alone), 3 * in.heads()));
    }
  }
}

TEST_CASE("a head has the same bits among few rows and among many", "[gpu]") {
  require_gpu();
  for (const auto& [dh, rd] :
       {std::pair{64, 64}, {96, 96}, {96, 80}, {128, 128}, {192, 192}, {192, 64}, {256, 256}}) {
    INFO("dh " << dh << ", " << rd << " turn");
    const Inputs in(500, 6, 3, dh, rd);
    const Result many = run(in);
    Setting few;
    few.first_token = 497;
    CHECK(same_bits(many, run(in, few), few.first_token * in.heads()));
    CHECK(same_bits(many, run(in, {design(Design::A)})));
  }
}

TEST_CASE("a position beyond the tables gives NaN in its token and in no other, on the GPU",
          "[gpu][sanitize]") {
  require_gpu();
  for (const auto& [dh, rd] :
       {std::pair{128, 128}, {128, 64}, {96, 96}, {96, 80}, {192, 64}, {80, 80}}) {
    const Inputs in(6, 3, 2, dh, rd);
    for (const Design chosen : all_designs) {
      INFO("design " << name_of(chosen) << " dh " << dh << ", " << rd << " turn");
      Setting setting{design(chosen)}, good{design(chosen)};
      setting.positions = {2, 6, -1, 0, 2147483647, 5};
      good.positions = {2, 0, 0, 0, 0, 5};
      const Result found = run(in, setting), expected = run(in, good);
      for (std::int64_t i = 0; i < in.rows(); ++i) {
        const int position = setting.positions[i / in.heads()];
        const bool there = position >= 0 && position < in.tokens;
        INFO("row " << i);
        CHECK(std::isnan(found.scale.value(i)) == !there);
        for (std::int64_t j = 0; j < dh; ++j) {
          const std::int64_t at = i * dh + j;
          const bool turns = j >= dh - rd;
          REQUIRE(std::isnan(found.y.value(at)) == (turns && !there));
          if (!there) REQUIRE(static_cast<int>(found.codes.raw()[at]) == 0x7F);
          if (there) REQUIRE(found.codes.raw()[at] == expected.codes.raw()[at]);
        }
      }
    }
  }
}

TEST_CASE("whoever asks gets an error for a position beyond the tables, on the GPU", "[gpu]") {
  require_gpu();
  const std::int64_t picked[] = {0, 3, 1};
  opbook::gpu::DeviceMemory positions(sizeof picked);
  opbook::gpu::copy_to_device(positions.data(), reinterpret_cast<const std::byte*>(picked),
                              sizeof picked);
  RopeTables<float> rope;
  rope.positions =
      Row<const std::int64_t>{reinterpret_cast<const std::int64_t*>(positions.data()), 3};
  rope.cos = rope.sin = contiguous_rows<const float>(nullptr, 4, 2);
  CHECK_NOTHROW(ch28::gpu::require_positions(nullptr, rope));
  rope.cos = rope.sin = contiguous_rows<const float>(nullptr, 3, 2);
  CHECK_THROWS_MATCHES(ch28::gpu::require_positions(nullptr, rope), ArgumentError,
                       begins("positions: got 3 for token 1"));
}

TEST_CASE("special values go through the GPU as the formula takes them", "[gpu][sanitize]") {
  require_gpu();
  for (const Dtype dtype : dtypes) {
    for (const auto& [dh, rd] : {std::pair{128, 128}, {128, 64}, {96, 96}, {80, 80}}) {
      for (const Design design : all_designs) {
        const auto special = [&]<class T>(Tensors& tensors) {
          const Rows<T> x = tensors.rows<T>("x");
          const auto whole = [&](std::int64_t row, float value) {
            for (std::int64_t j = 0; j < x.cols; ++j) x.row(row).data[j] = from_float<T>(value);
          };
          x.row(1).data[3] = from_float<T>(NAN);
          x.row(2).data[dh - 1] = from_float<T>(INFINITY);
          x.row(3).data[0] = from_float<T>(-INFINITY);
          whole(4, 0.0f);
          whole(5, -0.0f);
          whole(6, 60000.0f);  // near float16's largest
          whole(7, 1e-7f);     // below eps
        };
        const RunArguments a = sized(2, 4, 2, dh, rd, [&](RunArguments& changed) {
          changed.design = design;
          changed.options.dtype = dtype;
          changed.options.with_y = true;
        });
        require_verified(a, 0, [&](Tensors& tensors) {
          if (dtype == Dtype::bfloat16) {
            special.operator()<bfloat16>(tensors);
          } else {
            special.operator()<float16>(tensors);
          }
        });
      }
    }
  }
}

TEST_CASE("scales and codes have the values that the book gives them, on the GPU",
          "[gpu][sanitize]") {
  require_gpu();
  for (const std::int64_t dh : {128, 80}) {  // held, and element by element
    Inputs in(1, 1, 0, dh, 0);
    const Row<bfloat16> x = in.x.row<bfloat16>(), w = in.q_weight.row<bfloat16>();
    for (std::int64_t j = 0; j < dh; ++j) {
      x.data[j] = from_float<bfloat16>(0.0f);
      w.data[j] = from_float<bfloat16>(1.0f);
    }
    const Result zeros = run(in);
    CHECK(zeros.scale.value(0) == 1e-4f / 448.0f);
    for (std::int64_t j = 0; j < dh; ++j) CHECK(static_cast<int>(zeros.codes.raw()[j]) == 0);

    // Ones: the mean square is 1, rstd is 1 without eps, and y is the weight.
    for (std::int64_t j = 0; j < dh; ++j) x.data[j] = from_float<bfloat16>(1.0f);
    w.data[0] = from_float<bfloat16>(448.0f);
    w.data[1] = from_float<bfloat16>(-447.0f);   // rounds to bfloat16's 446, or 448: to 448 in e4m3
    w.data[2] = from_float<bfloat16>(0x1p-9f);   // the smallest code
    w.data[3] = from_float<bfloat16>(0x1p-10f);  // half of it: to even, 0
    w.data[4] = from_float<bfloat16>(-0x1p-30f);
    Setting no_eps;
    no_eps.options.eps = 0.0f;
    const Result largest = run(in, no_eps);
    CHECK(largest.scale.value(0) == 1.0);
    const int codes[] = {0x7E, 0xFE, 0x01, 0x00, 0x80, 0x38};
    for (int j = 0; j < 6; ++j) {
      INFO("dh " << dh << " column " << j);
      CHECK(static_cast<int>(largest.codes.raw()[j]) == codes[j]);
    }
  }
}

TEST_CASE("scales of every magnitude divide to the bit on the GPU", "[gpu]") {
  require_gpu();
  // A weight a run: bfloat16 reaches from 1e-38 to 3e38, and with it the scales.
  Inputs in(400, 16, 0, 128, 128);
  for (int exponent = -60; exponent <= 120; exponent += 4) {
    for (std::int64_t j = 0; j < in.dh; ++j) {
      in.q_weight.data<bfloat16>()[j] =
          from_float<bfloat16>(std::ldexp(1.0f + static_cast<float>(j) / 128.0f, exponent));
    }
    const Result found = run(in);
    const reference::Quantisation expected = reference::quantise(found.y);
    INFO("weights of 2^" << exponent);
    CHECK(same_bits(found.scale.raw(), expected.scale.raw(), found.scale.bytes()));
    CHECK(same_bits(found.codes.raw(), expected.codes.raw(), found.codes.bytes()));
  }
}

TEST_CASE("no tokens and no columns launch nothing on the GPU", "[gpu]") {
  require_gpu();
  const opbook::gpu::LaunchWatch watch;
  const bfloat16 one_weight[64] = {};
  QkHeads<bfloat16> in;
  in.q = {nullptr, 0, 4, 64, 256, 64};
  in.k = {nullptr, 0, 2, 64, 128, 64};
  in.q_weight = in.k_weight = {one_weight, 64};
  const QuantisedHeads none{contiguous_rows<float8_e4m3fn>(nullptr, 0, 64), {}, {}};
  ch28::gpu::qk_norm_rope_quant(nullptr, in, none);
  const QkIntermediates<bfloat16> intermediates{contiguous_rows<bfloat16>(nullptr, 0, 64),
                                                contiguous_rows<bfloat16>(nullptr, 0, 64)};
  ch28::gpu::qk_norm_rope_quant_unfused(nullptr, in, none, intermediates);
  CHECK(watch.launches() == 0);
}

TEST_CASE("the GPU refuses what the operator refuses, before anything is launched", "[gpu]") {
  require_gpu();
  const opbook::gpu::LaunchWatch watch;
  bfloat16 heads[64] = {}, weight[8] = {};
  float8_e4m3fn codes[64] = {};
  float scale[8] = {}, angles[64] = {};
  QkHeads<bfloat16> good;
  good.q = heads_of<const bfloat16>(heads, 2, 4, 8, 0, 3);
  good.k = heads_of<const bfloat16>(heads, 2, 4, 8, 3, 1);
  good.q_weight = good.k_weight = {weight, 8};
  const QuantisedHeads out{contiguous_rows(codes, 8, 8), {scale, 8}, {}};
  const auto refused = [&](const char* text, const std::function<void(QkHeads<bfloat16>&)>& spoil,
                           QkOptions options = {}) {
    QkHeads<bfloat16> in = good;
    spoil(in);
    CHECK_THROWS_MATCHES(ch28::gpu::qk_norm_rope_quant(nullptr, in, out, options), ArgumentError,
                         begins(text));
  };
  refused("heads: got 0 of q and 0 of k", [](auto& in) { in.q.inner = in.k.inner = 0; });
  refused("q: got 7 columns", [](auto& in) { in.q.cols = in.k.cols = 7; });
  refused("k: got [3, 1, 8]", [](auto& in) { in.k.outer = 3; });
  refused("k_weight: got 7", [](auto& in) { in.k_weight.size = 7; });
  refused("cos: got 5 columns", [&](auto& in) {
    in.rope.cos = in.rope.sin = contiguous_rows<const float>(angles, 2, 5);
  });
  refused("cos: got [3, 4]", [&](auto& in) {
    in.rope.cos = in.rope.sin = contiguous_rows<const float>(angles, 3, 4);
  });
  refused("rows_per_block: got 1;", [](auto&) {}, design(Design::B, 1));
  refused("rows_per_block: got 65;", [](auto&) {}, design(Design::B, 65));
  QkOptions negative;
  negative.eps = -1.0f;
  refused("eps: got -1", [](auto&) {}, negative);
  CHECK(watch.launches() == 0);
}

TEST_CASE("more than 2^31 elements are right in the last token", "[gpu][.large]") {
  require_gpu();
  const Inputs last(1, 32, 8, 128, 128);
  const Result expected = run(last);
  const std::int64_t tokens = 524289, heads = last.heads(), dh = last.dh, row_bytes = heads * dh;
  opbook::gpu::DeviceMemory x(tokens * row_bytes * 2), codes(tokens * row_bytes);
  opbook::gpu::DeviceMemory scale(tokens * heads * 4), tables(dh / 2 * 4 * 2);
  opbook::gpu::fill_on_device(nullptr, x.data(), 0, x.bytes());
  opbook::gpu::copy_to_device(x.data() + (tokens - 1) * row_bytes * 2, last.x.raw(),
                              last.x.bytes());
  const Mirror q_weight(last.q_weight), k_weight(last.k_weight), cos(last.cos), sin(last.sin);
  // Every token is turned by the one row that there is: stride 0.
  const auto table = [&](const Mirror& of) {
    return strided_rows<const float>(of.data<float>(), tokens, dh / 2, 0);
  };
  const auto* const data = reinterpret_cast<const bfloat16*>(x.data());
  const QkHeads<bfloat16> in{heads_of(data, tokens, heads, dh, 0, 32),
                             heads_of(data, tokens, heads, dh, 32, 8),
                             {q_weight.data<bfloat16>(), dh},
                             {k_weight.data<bfloat16>(), dh},
                             {table(cos), table(sin), {}}};
  for (const Design chosen : all_designs) {
    INFO("design " << name_of(chosen));
    opbook::gpu::fill_on_device(nullptr, codes.data(), 0xFF, codes.bytes());
    ch28::gpu::qk_norm_rope_quant(
        nullptr, in,
        {contiguous_rows(reinterpret_cast<float8_e4m3fn*>(codes.data()), tokens * heads, dh),
         {reinterpret_cast<float*>(scale.data()), tokens * heads},
         {}},
        design(chosen));
    Result found(last);
    const auto fetch = [&](std::int64_t token) {
      opbook::gpu::copy_to_host(found.codes.raw(), codes.data() + token * row_bytes, row_bytes);
      opbook::gpu::copy_to_host(found.scale.raw(), scale.data() + token * heads * 4, heads * 4);
    };
    fetch(tokens - 1);
    CHECK(same_bits(found.codes.raw(), expected.codes.raw(), found.codes.bytes()));
    CHECK(same_bits(found.scale.raw(), expected.scale.raw(), found.scale.bytes()));
    for (const std::int64_t token : {std::int64_t{0}, tokens / 2, tokens - 2}) {
      fetch(token);
      for (std::int64_t j = 0; j < row_bytes; ++j) {
        REQUIRE(static_cast<int>(found.codes.raw()[j]) == 0);
      }
    }
  }
}
