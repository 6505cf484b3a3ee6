#include "ch28_design/chapter.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>
#include <string>
#include <vector>

#include "common/cli.hpp"
#include "common/npy.hpp"
#include "common/test/temporary_folder.hpp"
#include "common/verify_problem.hpp"

namespace opbook::ch28 {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

Outcome run(const std::vector<std::string>& arguments) {
  const Chapter of = chapter();
  const Subcommand subcommands[] = {verify_subcommand(of), cache_subcommand(of)};
  return run_subcommand("ch28", "Chapter 28", subcommands, arguments);
}

void check_refused(std::vector<std::string> arguments, const std::string& beginning) {
  arguments.insert(arguments.begin(), {"verify", "--device", "cpu", "--op", "qk_norm_rope_quant"});
  const Outcome outcome = run(arguments);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, StartsWith("ch28: " + beginning) && ContainsSubstring("; allowed: "));
  CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
}

}  // namespace

TEST_CASE("verification covers every design, dtype, layout and kind of position", "[chapter]") {
  std::set<std::string> ops, dtypes;
  std::set<std::int64_t> widths;
  int with_positions = 0, without_k = 0, without_q = 0;
  for (const Problem& problem : chapter().verification_problems()) {
    ops.insert(problem.op);
    dtypes.insert(std::string(opbook::name_of(problem.dtype)));
    widths.insert(problem.shape.back());
    std::set<std::string> names;
    for (const TensorSpec& spec : problem.tensors) names.insert(spec.name);
    with_positions += names.contains("positions");
    without_q += !names.contains("q_weight");
    without_k += !names.contains("k_weight");
  }
  CHECK(ops.size() == 4);
  CHECK(dtypes.size() == 2);
  for (const std::int64_t width : {64, 96, 128, 192, 256}) CHECK(widths.contains(width));
  CHECK(with_positions > 5);
  CHECK(without_q > 0);
  CHECK(without_k > 0);
}

TEST_CASE("a run is described by the ledger's flags and a few more", "[chapter]") {
  const GivenFlags given = {{"--tokens", "5"},    {"--q-heads", "7"},        {"--kv-heads", "2"},
                            {"--head-dim", "96"}, {"--rope-dim", "64"},      {"--dtype", "float16"},
                            {"--design", "B"},    {"--rows-per-block", "4"}, {"--layout", "qkv"},
                            {"--with-y", ""}};
  const Problem problem = chapter().make_problem("qk_norm_rope_quant", given, {});
  CHECK(problem.op == "qk_norm_rope_quant (design B)");
  CHECK(problem.shape == std::vector<std::int64_t>{5, 11, 96});
  CHECK(problem.dtype == Dtype::float16);
  Tensors tensors(problem.tensors);
  fill_inputs(problem, tensors, 1);
  Fast fast;
  CHECK(all_pass(verify_problem(problem, tensors, fast)));
}

TEST_CASE("positions of a reader's own pick rows of tables that reach as far", "[chapter]") {
  Files files;
  files.emplace("positions", Array("positions", Dtype::int64, {4}));
  const std::int64_t rows[] = {3, 0, 3, 8};
  std::copy_n(rows, 4, files.at("positions").data<std::int64_t>());
  const Problem problem = chapter().make_problem("qk_norm_rope_quant", {{"--tokens", "4"}}, files);
  Tensors tensors(problem.tensors);
  fill_inputs(problem, tensors, 1);
  CHECK(tensors.at("cos").row_count() == 9);
  std::copy_n(rows, 4, tensors.at("positions").data<std::int64_t>());
  Fast fast;
  CHECK(all_pass(verify_problem(problem, tensors, fast)));
  CHECK_THROWS_AS(
      chapter().make_problem("qk_norm_rope_quant", {{"--tokens", "4"}, {"--design", "A"}}, files),
      ArgumentError);
}

TEST_CASE("positions that start again for each sequence are verified as any others", "[chapter]") {
  Files files;
  files.emplace("positions", Array("positions", Dtype::int32, {64}));
  for (std::int32_t i = 0; i < 64; ++i) files.at("positions").data<std::int32_t>()[i] = i % 32;
  const Problem problem = chapter().make_problem("qk_norm_rope_quant", {{"--tokens", "64"}}, files);
  Tensors tensors(problem.tensors);
  fill_inputs(problem, tensors, 1);
  std::copy_n(files.at("positions").data<std::int32_t>(), 64,
              tensors.at("positions").data<std::int32_t>());
  Fast fast;
  CHECK(all_pass(verify_problem(problem, tensors, fast)));
}

TEST_CASE("a run refuses what makes no sense, in flags", "[chapter]") {
  check_refused({"--tokens", "0"}, "--tokens: got \"0\"");
  check_refused({"--head-dim", "127"}, "--head-dim: got 127");
  check_refused({"--q-heads", "0", "--kv-heads", "0"}, "--q-heads, --kv-heads: got 0 and 0");
  check_refused({"--rope-dim", "130"}, "--rope-dim: got 130");
  check_refused({"--rope-dim", "7"}, "--rope-dim: got 7");
  check_refused({"--design", "E"}, "--design: got \"E\"");
  check_refused({"--design", "B", "--rows-per-block", "65"}, "--rows-per-block: got 65");
  check_refused({"--design", "B", "--rows-per-block", "1"}, "--rows-per-block: got 1");
  for (const char* const design : {"A", "C", "D"}) {
    check_refused({"--design", design, "--rows-per-block", "8"},
                  std::string("--rows-per-block: given with design ") + design);
  }
  check_refused({"--rows-per-block", "8"}, "--rows-per-block: given with design D");
  check_refused({"--q-heads", "032"}, "--q-heads: got \"032\"");
  check_refused({"--dtype", "float32"}, "--dtype: got \"float32\"");
  check_refused({"--layout", "kqv"}, "--layout: got \"kqv\"");
  check_refused({"--eps", "-1"}, "--eps: got \"-1\"");
  check_refused({"--eps", "nan"}, "--eps: got \"nan\"");
  CHECK(run({"verify", "--device", "cpu", "--op", "rms_norm"}).exit_code == 2);
}

TEST_CASE("a reader's heads bring their dtype along", "[chapter]") {
  const TemporaryFolder folder;
  const auto saved = [&](const char* name, Dtype dtype, std::vector<std::int64_t> shape) {
    const auto path = folder.path() / (std::string(name) + std::string(opbook::name_of(dtype)));
    Array array(name, dtype, std::move(shape));
    std::fill_n(array.raw(), array.bytes(), std::byte{0});
    save_npy(path, array);
    return path.string();
  };
  for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16}) {
    const std::string x = saved("x", dtype, {2, 40, 128}), weight = saved("w", dtype, {128});
    for (const std::vector<std::string>& files :
         {std::vector<std::string>{"--x", x}, {"--q_weight", weight}}) {
      std::vector<std::string> arguments = {
          "verify", "--device", "cpu", "--op", "qk_norm_rope_quant", "--tokens", "2"};
      arguments.insert(arguments.end(), files.begin(), files.end());
      const Outcome outcome = run(arguments);
      CHECK(outcome.err.empty());
      CHECK(outcome.exit_code == 0);
      CHECK_THAT(outcome.out, ContainsSubstring(" " + std::string(opbook::name_of(dtype)) + " "));
    }
  }
  const std::string half = saved("x", Dtype::float16, {2, 40, 128});
  check_refused({"--tokens", "2", "--x", saved("x", Dtype::float32, {2, 40, 128})},
                "--x: got float32; allowed: bfloat16, float16");
  check_refused({"--tokens", "2", "--x", half, "--k_weight", saved("w", Dtype::bfloat16, {128})},
                "--k_weight: got bfloat16; allowed: float16");
  const Outcome asked = run({"verify", "--device", "cpu", "--op", "qk_norm_rope_quant", "--tokens",
                             "2", "--dtype", "bfloat16", "--x", half});
  CHECK(asked.exit_code == 2);
  CHECK_THAT(asked.err, StartsWith("ch28: " + half +
                                   ": got dtype <f2; allowed where bfloat16 is asked for: <V2"));
}

TEST_CASE("verify of one run shows kernels, plans and a verdict", "[chapter]") {
  const Outcome outcome =
      run({"verify", "--device", "cpu", "--op", "qk_norm_rope_quant", "--tokens", "9"});
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("norm    normed") &&
                              ContainsSubstring("replay equal to the exact ledger"));
}

TEST_CASE("cache curves begin where a head does not fit beside what it looks up", "[chapter]") {
  const Outcome outcome =
      run({"cache", "--op", "qk_norm_rope_quant", "--design", "A", "--tokens", "3"});
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("\n  none  ") && ContainsSubstring("\n 1 KiB  "));
}

TEST_CASE("the benchmarks have every design, at the book's size and far beyond an L2",
          "[chapter]") {
  const std::vector<Problem> quick = chapter().device_benchmark_problems(true);
  const std::vector<Problem> all = chapter().device_benchmark_problems(false);
  CHECK(all.size() > quick.size());
  for (const std::int64_t tokens : {4096, 32768}) {
    for (const std::vector<Problem>* list : {&quick, &all}) {
      CHECK(std::count_if(list->begin(), list->end(), [=](const Problem& problem) {
              return problem.shape == std::vector<std::int64_t>{tokens, 40, 128} &&
                     problem.dtype == Dtype::bfloat16;
            }) == 4);
    }
  }
  for (const Problem& problem : chapter().benchmark_problems(10'000'000)) {
    const auto bytes = static_cast<double>(problem.ledger.fused.moved_bytes());
    CHECK(bytes < 10.1e6);
    CHECK(bytes > 9.9e6);
  }
}

}  // namespace opbook::ch28
