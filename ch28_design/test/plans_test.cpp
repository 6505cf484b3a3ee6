#include "ch28_design/plans.hpp"

#include <catch2/catch_test_macros.hpp>

namespace opbook::ch28 {

TEST_CASE("the fused plan moves the ideal bytes, with as many FLOPs as the unfused one",
          "[plans]") {
  for (const std::int64_t rope_dim : {128, 64}) {
    Arguments a;
    a.rope_dim = rope_dim;
    const OperatorLedger op = operator_ledger(a, Convention::exact);
    const Case plans = qk_norm_rope_quant_case(a, {});
    CHECK(plans.fused.moved_bytes() == op.ideal_bytes);
    CHECK(plans.fused.read_bytes() == op.read_bytes);
    CHECK(plans.fused.flops() == op.flops);
    CHECK(plans.unfused.flops() == op.flops);
    // normed and rotated, each written and read, 2 bytes an element.
    CHECK(plans.unfused.moved_bytes() == op.ideal_bytes + 4 * op.elements * 2);
  }
}

TEST_CASE("a design's kernel by block moves what its ledger says", "[plans]") {
  for (const Design design : all_designs) {
    const Arguments a;
    const Kernel kernel = kernel_by_block(a, {}, design);
    CHECK(kernel.moved_bytes() == design_ledger(a, design, Convention::exact).total_bytes);
    CHECK(kernel.flops == operator_ledger(a, Convention::exact).flops);
  }
}

TEST_CASE("y costs its bytes and positions an index a token", "[plans]") {
  const Arguments a;
  RunOptions options;
  const std::int64_t without = qk_norm_rope_quant_case(a, options).fused.moved_bytes();
  options.with_y = true;
  const std::int64_t with_y = qk_norm_rope_quant_case(a, options).fused.moved_bytes();
  CHECK(with_y == without + 4 * 4096 * 40 * 128);
  options.positions = {100, 7, Dtype::int32};
  CHECK(qk_norm_rope_quant_case(a, options).fused.moved_bytes() ==
        with_y + 4 * 4096 - (4096 - 7) * 512);
}

TEST_CASE("a block reads a table row that several of its tokens share once", "[plans]") {
  Arguments a;
  a.tokens = 6;
  a.q_heads = a.kv_heads = 1;
  a.rows_per_block = 12;  // all in one block
  const RunOptions options{.positions = {9, 4, Dtype::int64}};
  CHECK(kernel_by_block(a, options, Design::B).moved_bytes() ==
        qk_norm_rope_quant_case(a, options).fused.moved_bytes());
  a.rows_per_block = 5;  // tokens 0 1 2, 2 3 4, 5
  std::int64_t of_cos = 0;
  for (const Tensor& tensor : kernel_by_block(a, options, Design::B).reads) {
    if (tensor.name == "cos") of_cos = tensor.elements;
  }
  CHECK(of_cos == (3 + 3 + 1) * 64);
}

}  // namespace opbook::ch28
