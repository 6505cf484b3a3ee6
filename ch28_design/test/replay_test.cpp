// The designs executed on memory that counts: what their blocks touch is what the ledger says, to
// the byte and to the operation; and the size of cache from which their re-reads cost nothing.

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "ch28_design/problem.hpp"
#include "ch28_design/test/golden.hpp"
#include "common/build_kind.hpp"

namespace opbook::ch28 {
namespace {

KernelCount replayed(const RunArguments& a, CacheCurve* curve = nullptr) {
  const Problem problem = make_problem(a);
  Tensors tensors(problem.tensors);
  fill_inputs(problem, tensors, 1);
  const std::vector<KernelCount> counts = replay_problem(problem, PlanKind::fused, tensors, curve);
  REQUIRE(counts.size() == 1);
  return counts.front();
}

std::int64_t moved(const KernelCount& count) {
  return count.read_bytes() + count.write_bytes();
}

RunArguments run_of(Design design, std::int64_t tokens) {
  RunArguments a;
  a.design = design;
  a.sizes.tokens = tokens;
  return a;
}

}  // namespace

TEST_CASE("blocks of A, B and C, run one by one, touch the bytes that are recorded", "[replay]") {
  const nlohmann::ordered_json exact = golden("ch28_exact.json");
  for (const nlohmann::ordered_json& recorded : exact.at("cases")) {
    const auto& args = recorded.at("args");
    INFO(args);
    RunArguments a;
    a.sizes.tokens = args.at("tokens");
    // The large cases take a minute where nothing is optimised; there a tenth says as much.
    const std::int64_t share = times_count || a.sizes.tokens < 4096 ? 1 : 10 * 64;
    a.sizes.tokens = std::max<std::int64_t>(1, a.sizes.tokens / share);
    a.sizes.q_heads = args.at("q_heads");
    a.sizes.kv_heads = args.at("kv_heads");
    a.sizes.head_dim = args.at("head_dim");
    a.sizes.rows_per_block = args.at("rows_per_block");
    for (int i = 0; i < 3; ++i) {
      a.design = all_designs[i];
      const KernelCount count = replayed(a);
      const DesignLedger ledger = design_ledger(a.sizes, a.design, Convention::exact);
      CHECK(moved(count) == ledger.total_bytes);
      CHECK(count.calls == ledger.grid);
      CHECK(count.flops == operator_ledger(a.sizes, Convention::exact).flops);
      CHECK(count.refetched_bytes() == 0);
      if (share > 1) continue;
      CHECK(moved(count) == recorded.at("designs")[i].at("total_bytes"));
      CHECK(count.flops == recorded.at("ledger").at("flops"));
    }
  }
}

TEST_CASE("ours is one call on a CPU, and touches the ideal bytes", "[replay]") {
  const RunArguments a = run_of(Design::D, 50);
  const KernelCount count = replayed(a);
  CHECK(count.calls == 1);
  CHECK(moved(count) == operator_ledger(a.sizes, Convention::exact).ideal_bytes);
}

TEST_CASE("a block reads the weights of the heads it holds, and each token's tables once",
          "[replay]") {
  RunArguments a = run_of(Design::B, 3);
  a.sizes.q_heads = 3;
  a.sizes.kv_heads = 1;
  a.sizes.rows_per_block = 6;  // q q q k q q | q k q q q k
  const auto read = [&](const std::string& name) {
    for (const TensorCount& tensor : replayed(a).tensors) {
      if (tensor.name == name) return tensor.read_bytes;
    }
    return std::int64_t{0};
  };
  CHECK(read("q_weight") == 2 * 256);
  CHECK(read("k_weight") == 2 * 256);
  CHECK(read("cos") == 4 * 256);  // tokens 0 1 | 1 2
  CHECK(read("x") == 12 * 256);
}

TEST_CASE("A's re-reads reach memory only where a cache holds less than what a token needs",
          "[cache]") {
  constexpr std::int64_t tokens = 100;
  CacheCurve a, c;
  replayed(run_of(Design::A, tokens), &a);
  replayed(run_of(Design::C, tokens), &c);
  const auto ideal = operator_ledger(run_of(Design::A, tokens).sizes, Convention::exact);
  // A row of x, a weight, cos and sin are 256 bytes each: 1 KiB does not hold them.
  const std::int64_t again =
      design_ledger(run_of(Design::A, tokens).sizes, Design::A, Convention::exact).lookup_bytes -
      ideal.ideal_lookup_bytes;
  CHECK(a.traffic(1 << 10).moved_bytes() >= c.traffic(1 << 10).moved_bytes() + again / 2);
  // And the weights of q have to outlast the rows of k, and those of k the rows of q.
  for (const std::int64_t size : {32 << 10, 64 << 10, 1 << 20}) {
    CHECK(a.traffic(size).moved_bytes() == ideal.ideal_bytes);
    CHECK(c.traffic(size).moved_bytes() == ideal.ideal_bytes);
  }
}

}  // namespace opbook::ch28
