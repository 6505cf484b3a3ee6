// What the steps refuse, and what `bench --plan` makes of its arguments: all of it without a GPU.

#include "ch13_norm_rope/steps.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

#include "ch13_norm_rope/chapter.hpp"
#include "ch13_norm_rope/operators.hpp"
#include "ch13_norm_rope/test/operator_test.hpp"
#include "common/chapter.hpp"
#include "common/cli.hpp"
#include "common/cuda/probe.hpp"

using namespace opbook;
using namespace opbook::ch13;
using Catch::Matchers::Equals;
using Catch::Matchers::Message;
using Catch::Matchers::StartsWith;

namespace {

Outcome bench(std::vector<std::string> arguments) {
  const Subcommand subcommands[] = {bench_subcommand(ch13::chapter())};
  arguments.insert(arguments.begin(), "bench");
  return run_subcommand("ch13", "", subcommands, arguments);
}

void check_refused(const std::vector<std::string>& arguments, const std::string& why) {
  const Outcome outcome = bench(arguments);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(outcome.err == "ch13: " + why + "\n");
}

/// Arguments of a step in the host's memory, for what is checked before it is launched.
template <class T>
struct StepArguments {
  std::int64_t m, n, turned;
  Array x = Array("x", dtype_of<T>, {m, n + 8}), w = Array("w", dtype_of<T>, {n});
  Array cos = Array("cos", dtype_of<T>, {m, turned / 2});
  Array sin = Array("sin", dtype_of<T>, {m, turned / 2});
  Array y = Array("y", dtype_of<T>, {m, n + 8}), q = Array("q", Dtype::float8_e4m3fn, {m, n});
  Array scale = Array("scale", Dtype::float32, {m});
  Rows<T> in = contiguous_rows(x.template data<T>(), m, n);
  Rows<T> out = contiguous_rows(y.template data<T>(), m, n);

  void check_norm(const RmsNormOptions& options = {}) {
    check_rms_norm_step<T>(in, w.template row<T>(), out, options);
  }
  void check_quant(const RmsNormRopeQuantOptions& options = {}) {
    check_quant_step<T>(
        in, w.template row<T>(), {cos.template rows<T>(), sin.template rows<T>()},
        {q.template rows<float8_e4m3fn>(), one_a_row(scale.template row<float>()), out}, options);
  }
};

}  // namespace

TEST_CASE("a plan that is no step is refused with the names of those that are", "[steps]") {
  check_refused({"--op", "rms_norm", "--plan", "fast"},
                "--plan: got \"fast\"; allowed: naive, block, vectorised, held, fused, steps");
  check_refused({"--op", "rms_norm_rope_quant", "--plan", "block", "--device", "cuda"},
                "--plan: got \"block\"; allowed: naive, vectorised, held, exact_quotient, fused, "
                "steps");
  check_refused({"--op", "layer_norm", "--plan", "naive"},
                "--plan: got \"naive\", but layer_norm has no steps; allowed: with --op rms_norm "
                "or --op rms_norm_rope_quant");
  check_refused({"--plan", "naive"},
                "--plan: got \"naive\" without --op; allowed: steps, or with --op rms_norm or "
                "--op rms_norm_rope_quant");
}

TEST_CASE("steps are a GPU's, and are timed without counters", "[steps]") {
  for (const char* const plan : {"naive", "steps"}) {
    check_refused({"--op", "rms_norm", "--plan", plan, "--device", "cpu"},
                  std::string("--plan: got \"") + plan +
                      "\" on the CPU; allowed: with --device cuda, since steps are a GPU's");
  }
  check_refused({"--plan", "steps", "--device", "cpu"},
                "--plan: got \"steps\" on the CPU; allowed: with --device cuda, since steps are a "
                "GPU's");
  check_refused({"--plan", "steps", "--counters"},
                "--counters: given with --plan; allowed: without it");
  if (!opbook::gpu::probe_device().device) {
    CHECK(bench({"--plan", "steps", "--device", "cuda"}).exit_code == 3);
  }
}

TEST_CASE("the operators that the chapter calls stepped are those with steps, ending in the fused",
          "[steps]") {
  const std::vector<std::string> stepped = ch13::chapter().stepped_operators;
  for (const Operator& entry : operators()) {
    INFO(entry.name);
    const Problem problem = entry.make_problem(entry.defaults);
    const bool listed = std::count(stepped.begin(), stepped.end(), entry.name) == 1;
    CHECK(listed == !problem.steps.empty());
    if (listed) CHECK(problem.steps.back().name == "fused");
    for (const Step& step : problem.steps) CHECK_FALSE(step.adds.empty());
  }
}

TEST_CASE("steps take plain rows of whole vectors, up to 8192", "[steps]") {
  StepArguments<bfloat16>{3, 264, 8}.check_norm();
  StepArguments<bfloat16>{3, 8192, 128}.check_quant();
  StepArguments<float>{3, 8192, 128}.check_quant();
  const auto refuses = [](std::int64_t n, const char* why) {
    StepArguments<float16> arguments{3, n, 8};
    CHECK_THROWS_MATCHES(arguments.check_norm(), ArgumentError, Message(why));
  };
  refuses(260, "n: got 260; allowed in a step: multiples of 8 up to 8192");
  refuses(8200, "n: got 8200; allowed in a step: multiples of 8 up to 8192");
  StepArguments<float> plain{3, 256, 64};
  RmsNormOptions options;
  options.weight_offset = 1;
  CHECK_THROWS_MATCHES(plain.check_norm(options), ArgumentError,
                       Message("weight_offset: got 1; allowed in a step: 0"));
  options = {};
  options.rounding = Rounding::before_weight;
  CHECK_THROWS_MATCHES(plain.check_quant({options}), ArgumentError,
                       Message("rounding: got before_weight; allowed in a step: once"));
  CHECK_THROWS_MATCHES(plain.check_norm({-1.0f}), ArgumentError, begins("eps: got -1"));
}

TEST_CASE("steps take rows without gaps, on boundaries", "[steps]") {
  StepArguments<bfloat16> arguments{3, 256, 64};
  arguments.in.outer_stride = 264;
  CHECK_THROWS_MATCHES(
      arguments.check_norm(), ArgumentError,
      Message("x: got strides 264 and 0 for rows of 256; allowed in a step: no gaps"));
  arguments.in = contiguous_rows(arguments.x.data<bfloat16>(), 3, 256);
  arguments.out.data += 1;
  CHECK_THROWS_MATCHES(arguments.check_quant(), ArgumentError,
                       Message("y: got a base 2 bytes beyond a boundary; allowed in a step: "
                               "multiples of 16 bytes"));
}

TEST_CASE("steps quantise with one scale a row, and turn what one warp holds", "[steps]") {
  StepArguments<bfloat16> grouped{3, 256, 64};
  grouped.scale = Array("scale", Dtype::float32, {6});
  const Rows<float> scales = contiguous_rows(grouped.scale.data<float>(), 3, 2);
  CHECK_THROWS_MATCHES(
      check_quant_step<bfloat16>(grouped.in, grouped.w.row<bfloat16>(),
                                 {grouped.cos.rows<bfloat16>(), grouped.sin.rows<bfloat16>()},
                                 {grouped.q.rows<float8_e4m3fn>(), scales}, {{}, 128}),
      ArgumentError, Message("group_size: got 128; allowed in a step: 0, one scale a row"));
  for (const std::int64_t turned : {8, 24, 512}) {
    StepArguments<bfloat16> arguments{3, 1536, turned};
    CHECK_THROWS_MATCHES(arguments.check_quant(), ArgumentError,
                         Message("rope_dim: got " + std::to_string(turned) +
                                 "; allowed in a step: powers of two from 16 to 256 that divide "
                                 "n = 1536"));
  }
  StepArguments<bfloat16> ragged{3, 264, 16};
  CHECK_THROWS_MATCHES(ragged.check_quant(), ArgumentError,
                       begins("rope_dim: got 16; allowed in a step"));
}

TEST_CASE("a step is the problem with another fused plan on the GPU, on any number of rows",
          "[steps]") {
  const Problem problem = ch13::chapter().make_problem("rms_norm", {}, {});
  const Problem naive = step_of(problem, 0);
  REQUIRE(naive.steps.size() == 1);
  CHECK(naive.steps.front().name == "naive");
  const Problem few = naive.with_rows(3);
  CHECK(few.shape == std::vector<std::int64_t>{3, 4096});
  REQUIRE(few.steps.size() == 1);
  CHECK(few.steps.front().name == "naive");
}
