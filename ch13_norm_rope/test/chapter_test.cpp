#include "ch13_norm_rope/chapter.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "ch13_norm_rope/ledger_command.hpp"
#include "ch13_norm_rope/operators.hpp"
#include "common/error.hpp"
#include "common/verify_problem.hpp"

using namespace opbook;
using namespace opbook::ch13;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

namespace {

const TensorSpec& tensor_named(std::string_view name, const Problem& problem) {
  for (const TensorSpec& spec : problem.tensors) {
    if (spec.name == name) return spec;
  }
  throw std::out_of_range(std::string(name));
}

/// Sizes unlike each other and unlike the defaults; the columns leave room for the default
/// rope_dim.
std::vector<std::int64_t> shape_of(const Input& input) {
  const std::vector<std::int64_t> shape{3, 5, 130};
  return {shape.end() - static_cast<std::ptrdiff_t>(input.sizes.size()), shape.end()};
}

Files one_file(const Input& input, const std::vector<std::int64_t>& shape) {
  Files files;
  const std::string name(input.name);
  files.emplace(name, Array(name, Dtype::float16, shape));
  return files;
}

Problem made_of(const Operator& entry, const GivenFlags& given, const Files& files) {
  return chapter().make_problem(std::string(entry.name), given, files);
}

}  // namespace

TEST_CASE("the table of operators names every input of each", "[chapter]") {
  const std::vector<std::string> known = chapter().input_names;
  for (const Operator& entry : operators()) {
    INFO(entry.name);
    Arguments arguments = entry.defaults;
    arguments.positions = {9, 5, Dtype::int32};
    std::set<std::string> run, listed;
    for (const TensorSpec& spec : entry.make_problem(arguments).tensors) {
      if (spec.role == Role::input) run.insert(spec.name);
    }
    for (const Input& input : entry.inputs) {
      listed.emplace(input.name);
      CHECK(std::count(known.begin(), known.end(), input.name) == 1);
    }
    CHECK(listed == run);
  }
}

TEST_CASE("any input of an operator may bring its sizes and its dtype in a file", "[chapter]") {
  for (const Operator& entry : operators()) {
    for (const Input& input : entry.inputs) {
      if (input.sizes.empty()) continue;
      INFO(entry.name << ' ' << input.name);
      const std::vector<std::int64_t> shape = shape_of(input);
      const Problem problem = made_of(entry, {}, one_file(input, shape));
      CHECK(tensor_named(input.name, problem).shape == shape);
      CHECK(problem.dtype == Dtype::float16);
      // A flag may repeat a size of the file and not contradict it.
      const std::string flag = flag_name(input.sizes.back());
      CHECK_NOTHROW(made_of(entry, {{flag, "130"}}, one_file(input, shape)));
      CHECK_THROWS_WITH(made_of(entry, {{flag, "128"}}, one_file(input, shape)),
                        Equals(flag + ": got 128; allowed: 130, as the files have it"));
    }
  }
}

TEST_CASE("positions that start again for each sequence are verified as any others", "[chapter]") {
  Files files;
  files.emplace("positions", Array("positions", Dtype::int32, {64}));
  for (std::int32_t i = 0; i < 64; ++i) files.at("positions").data<std::int32_t>()[i] = i % 32;
  const Problem problem = chapter().make_problem("rope", {{"--tokens", "64"}}, files);
  Tensors tensors(problem.tensors);
  fill_inputs(problem, tensors, 1);
  std::copy_n(files.at("positions").data<std::int32_t>(), 64,
              tensors.at("positions").data<std::int32_t>());
  Fast fast;
  for (const Finding& finding : verify_problem(problem, tensors, fast)) {
    INFO(finding.plan << ' ' << finding.kernel << ' ' << finding.tensor << ' ' << finding.detail);
    CHECK(finding.pass);
  }
}

TEST_CASE("the rows of a file may be split over several dimensions, or be one", "[chapter]") {
  const Operator& norm = *find_operator("rms_norm");
  const Input& x = norm.inputs.front();
  CHECK(made_of(norm, {}, one_file(x, {2, 3, 7})).shape == std::vector<std::int64_t>{6, 7});
  CHECK(made_of(norm, {}, one_file(x, {7})).shape == std::vector<std::int64_t>{1, 7});
  const Operator& rope = *find_operator("rope");
  const Input& heads = rope.inputs.front();
  CHECK(made_of(rope, {}, one_file(heads, {2, 3, 5, 8})).shape ==
        std::vector<std::int64_t>{6, 5, 8});
}

TEST_CASE("a file of another rank, of no rows or of another operator is refused by name",
          "[chapter]") {
  const auto refusal = [](const char* op, const Input& input, std::vector<std::int64_t> shape) {
    return made_of(*find_operator(op), {}, one_file(input, shape));
  };
  CHECK_THROWS_WITH(refusal("rope", {"x", {}}, {5, 8}),
                    Equals("--x: got rank 2; allowed: rank 3 or more"));
  CHECK_THROWS_WITH(refusal("rms_norm", {"w", {}}, {5, 8}),
                    Equals("--w: got rank 2; allowed: rank 1"));
  CHECK_THROWS_WITH(refusal("rms_norm", {"x", {}}, {0, 8}),
                    Equals("--m: got 0 from the files; allowed: a whole number above zero"));
  CHECK_THROWS_WITH(refusal("rope", {"x", {}}, {3, 0, 8}),
                    Equals("--heads: got 0 from the files; allowed: a whole number above zero"));
  CHECK_THROWS_WITH(refusal("rms_norm", {"r", {}}, {5, 8}),
                    StartsWith("--r: given, but rms_norm does not take it; allowed: --x, --w"));
}
