#include "ch13_norm_rope/ledger.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ch13_norm_rope/ledger_command.hpp"
#include "ch13_norm_rope/operators.hpp"
#include "common/error.hpp"

namespace opbook::ch13 {
namespace {

using Catch::Matchers::StartsWith;
using nlohmann::json;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

json golden(const std::string& name) {
  std::ifstream file(std::string(OPBOOK_TEST_DIR) + "/golden/" + name);
  return json::parse(file);
}

Dtype dtype_named(const std::string& name) {
  for (const Dtype dtype : float_dtypes) {
    if (name_of(dtype) == name) return dtype;
  }
  throw std::invalid_argument(name);
}

Arguments arguments_from(const json& args) {
  Arguments a;
  for (const Field& field : fields) {
    if (field.size != nullptr) {
      a.*field.size = args.value(std::string(field.argument), std::int64_t{0});
    }
  }
  a.dtype = dtype_named(args.at("dtype"));
  a.out_dtype = dtype_named(args.value("out_dtype", "float8_e4m3fn"));
  a.with_y = args.value("with_y", false);
  return a;
}

void check_plan(const Plan& plan, const json& expected) {
  CHECK(expected.at("kernels") == plan.kernels.size());
  CHECK(expected.at("moved_bytes") == plan.moved_bytes());
  CHECK(expected.at("flops") == plan.flops());
  CHECK(expected.at("ai") == plan.ai());
  REQUIRE(expected.at("ops").size() == plan.kernels.size());
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    const json& op = expected.at("ops")[i];
    const Kernel& kernel = plan.kernels[i];
    INFO("kernel " << i << ": " << kernel.name);
    CHECK(op.at("moved_bytes") == kernel.moved_bytes());
    CHECK(op.at("flops") == kernel.flops);
    CHECK(op.value("name", kernel.name) == kernel.name);
    CHECK(op.value("read_bytes", kernel.read_bytes()) == kernel.read_bytes());
    CHECK(op.value("write_bytes", kernel.write_bytes()) == kernel.write_bytes());
  }
}

void check_cases(const json& cases, Convention convention) {
  REQUIRE(!cases.empty());
  for (const json& expected : cases) {
    INFO(expected.at("op") << " " << expected.at("args"));
    const Operator* entry = find_operator(expected.at("op").get<std::string>());
    REQUIRE(entry != nullptr);
    const Case actual = entry->make_case(arguments_from(expected.at("args")), convention);
    check_plan(actual.unfused, expected.at("unfused"));
    check_plan(actual.fused, expected.at("fused"));
    CHECK(expected.at("bytes_ratio") == actual.bytes_ratio());
  }
}

/// "norm: x w -> normed", one line a kernel.
std::vector<std::string> described(const Plan& plan) {
  std::vector<std::string> lines;
  for (const Kernel& kernel : plan.kernels) {
    std::string line = kernel.name + ":";
    for (const Tensor& tensor : kernel.reads) line += " " + tensor.name;
    line += " ->";
    for (const Tensor& tensor : kernel.writes) line += " " + tensor.name;
    lines.push_back(line);
  }
  return lines;
}

using Lines = std::vector<std::string>;

/// The operator's default case with `change` made to its arguments.
template <class Change>
Case changed(std::string_view op, Convention convention, Change change) {
  const Operator& entry = *find_operator(op);
  Arguments arguments = entry.defaults;
  change(arguments);
  return entry.make_case(arguments, convention);
}

Case with_defaults(std::string_view op, Convention convention) {
  return changed(op, convention, [](Arguments&) {});
}

/// Operators of ours refuse the book's convention as a whole.
bool exists(const Operator& entry, Convention convention) {
  try {
    entry.make_case(entry.defaults, convention);
    return true;
  } catch (const ArgumentError& error) {
    if (std::string_view(error.what()).starts_with("convention: got book")) return false;
    throw;
  }
}

}  // namespace

TEST_CASE("under the book convention every figure is the book's", "[ledger]") {
  const json book = golden("ch13_ledger.json");
  check_cases(book.at("book_defaults"), Convention::book);
  check_cases(book.at("more"), Convention::book);
}

TEST_CASE("under the exact convention every figure is the recorded one", "[ledger]") {
  check_cases(golden("ch13_exact.json").at("cases"), Convention::exact);
}

TEST_CASE("every operator's defaults are the book's", "[ledger]") {
  const json cases = golden("ch13_ledger.json").at("book_defaults");
  REQUIRE(!cases.empty());
  for (const json& expected : cases) {
    INFO(expected.at("op"));
    const Operator& entry = *find_operator(expected.at("op").get<std::string>());
    const Case actual = entry.make_case(entry.defaults, Convention::book);
    check_plan(actual.unfused, expected.at("unfused"));
    check_plan(actual.fused, expected.at("fused"));
  }
}

TEST_CASE("an operator is found by its name and by its alias", "[ledger]") {
  for (const Operator& entry : operators()) {
    CHECK(find_operator(entry.name) == &entry);
    CHECK(entry.make_case(entry.defaults, Convention::exact).op == entry.name);
  }
  CHECK(find_operator("norm_rope_quant") == find_operator("rms_norm_rope_quant"));
  CHECK(find_operator("norm_rope") == nullptr);
  CHECK(find_operator("") == nullptr);
}

TEST_CASE("under the book convention are the book's cases; another has it, or refuses it by name",
          "[ledger]") {
  for (const std::string_view name : book_cases) {
    CHECK(exists(*find_operator(name), Convention::book));
  }
  for (const Operator& entry : operators()) CHECK_NOTHROW(exists(entry, Convention::book));
}

TEST_CASE("scale_add's kernels are the book's", "[ledger]") {
  for (const Convention convention : {Convention::book, Convention::exact}) {
    const Case plans = with_defaults("scale_add", convention);
    CHECK(described(plans.unfused) == Lines{"t: x -> t", "y: t b -> y"});
    CHECK(described(plans.fused) == Lines{"fused: x b -> y"});
  }
}

TEST_CASE("rms_norm's kernels are the book's", "[ledger]") {
  for (const Convention convention : {Convention::book, Convention::exact}) {
    const Case plans = with_defaults("rms_norm", convention);
    CHECK(described(plans.unfused) == Lines{"x2: x -> x2", "mean: x2 -> mean",
                                            "mean_eps: mean -> mean_eps", "rstd: mean_eps -> rstd",
                                            "scaled: x rstd -> scaled", "y: scaled w -> y"});
    CHECK(described(plans.fused) == Lines{"fused: x w -> y"});
  }
}

TEST_CASE("layer_norm makes and reads its statistics under the exact convention alone",
          "[ledger]") {
  const Case book = with_defaults("layer_norm", Convention::book);
  CHECK(described(book.unfused) == Lines{"x2: x -> x2", "sum_x: x -> sum_x", "sum_x2: x2 -> sum_x2",
                                         "centered: x -> centered", "scaled: centered -> scaled",
                                         "y: scaled g b -> y"});
  const Case exact = with_defaults("layer_norm", Convention::exact);
  CHECK(described(exact.unfused) ==
        Lines{"x2: x -> x2", "sum_x: x -> sum_x", "sum_x2: x2 -> sum_x2",
              "stats: sum_x sum_x2 -> mean rstd", "centered: x mean -> centered",
              "scaled: centered rstd -> scaled", "y: scaled g b -> y"});
  CHECK(described(book.fused) == Lines{"fused: x g b -> y"});
  CHECK(described(exact.fused) == Lines{"fused: x g b -> y"});
}

TEST_CASE("rope's tables belong to the head in the book and to the token in fact", "[ledger]") {
  const auto small = [](Arguments& a) {
    a.tokens = 5;
    a.heads = 3;
    a.rope_dim = 4;
  };
  for (const Convention convention : {Convention::book, Convention::exact}) {
    const Case plans = changed("rope", convention, small);
    CHECK(described(plans.unfused) ==
          Lines{"rot: x -> rot", "t: x cos -> t", "u: rot sin -> u", "y: t u -> y"});
    CHECK(described(plans.fused) == Lines{"fused: x cos sin -> y"});
  }
  const Case book = changed("rope", Convention::book, small);
  CHECK(book.unfused.kernels[1].reads[1].elements == 5 * 3 * 4);
  CHECK(book.fused.kernels[0].reads[1].elements == 5 * 3 * 2);
  const Case exact = changed("rope", Convention::exact, small);
  CHECK(exact.unfused.kernels[2].reads[1].elements == 5 * 2);
  CHECK(exact.fused.kernels[0].reads[2].elements == 5 * 2);
}

TEST_CASE("rms_norm_rope is norm_rope_quant's norm and rope", "[ledger]") {
  for (const Convention convention : {Convention::book, Convention::exact}) {
    const Case plans = with_defaults("rms_norm_rope", convention);
    CHECK(described(plans.unfused) == Lines{"norm: x w -> normed", "rope: normed cos sin -> y"});
    CHECK(described(plans.fused) == Lines{"fused: x w cos sin -> y"});
    const Case longer = with_defaults("rms_norm_rope_quant", convention);
    for (const std::size_t i : {0, 1}) {
      CHECK(plans.unfused.kernels[i].moved_bytes() == longer.unfused.kernels[i].moved_bytes());
      CHECK(plans.unfused.kernels[i].flops == longer.unfused.kernels[i].flops);
    }
  }
}

TEST_CASE("rms_norm_rope, book convention, by hand", "[ledger]") {
  const Case plans = changed("rms_norm_rope", Convention::book, [](Arguments& a) {
    a.m = 7;
    a.n = 10;
    a.rope_dim = 4;
    a.dtype = Dtype::float32;
  });
  // x and y 280 bytes each, w 40, cos and sin 7 * 2 * 4 = 56 each.
  CHECK(plans.unfused.moved_bytes() == (280 + 40 + 280) + (280 + 56 + 56 + 280));
  CHECK(plans.fused.read_bytes() == 280 + 40 + 56 + 56);
  CHECK(plans.fused.write_bytes() == 280);
  // 4mn + 2m + 3 m rd
  CHECK(plans.unfused.flops() == 4 * 70 + 2 * 7 + 3 * 28);
  CHECK(plans.fused.flops() == 4 * 70 + 2 * 7 + 3 * 28);
}

TEST_CASE("rms_norm_rope_quant writes codes and scales, and y beside them when asked", "[ledger]") {
  const Case book = with_defaults("norm_rope_quant", Convention::book);
  CHECK(described(book.unfused) == Lines{"norm: x w -> normed", "rope: normed cos sin -> rotated",
                                         "quant: rotated -> q amax"});
  CHECK(described(book.fused) == Lines{"fused: x w cos sin -> q amax"});
  const Case exact = with_defaults("rms_norm_rope_quant", Convention::exact);
  CHECK(described(exact.unfused) == Lines{"norm: x w -> normed", "rope: normed cos sin -> rotated",
                                          "quant: rotated -> q scale"});
  CHECK(described(exact.fused) == Lines{"fused: x w cos sin -> q scale"});
  const Case with_y =
      changed("rms_norm_rope_quant", Convention::exact, [](Arguments& a) { a.with_y = true; });
  CHECK(described(with_y.unfused) == described(exact.unfused));
  CHECK(described(with_y.fused) == Lines{"fused: x w cos sin -> q scale y"});
}

TEST_CASE("a scale is shared by a row or by a group of columns", "[ledger]") {
  const auto scales = [](std::int64_t group_size) {
    const Case plans = changed("rms_norm_rope_quant", Convention::exact, [&](Arguments& a) {
      a.m = 3;
      a.n = 1664;
      a.group_size = group_size;
    });
    return plans.unfused.kernels[2].writes[1].elements;
  };
  CHECK(scales(0) == 3);
  CHECK(scales(1664) == 3);
  CHECK(scales(128) == 3 * 13);
  CHECK(scales(1) == 3 * 1664);
}

TEST_CASE("codes of 16 bits take twice the bytes of float8 ones", "[ledger]") {
  for (const Convention convention : {Convention::book, Convention::exact}) {
    const auto fused = [&](Dtype out_dtype) {
      return changed("norm_rope_quant", convention, [&](Arguments& a) { a.out_dtype = out_dtype; })
          .fused;
    };
    const Plan narrow = fused(Dtype::float8_e4m3fn);
    for (const Dtype wide : {Dtype::float16, Dtype::bfloat16}) {
      CHECK(fused(wide).moved_bytes() - narrow.moved_bytes() == 4096 * 4096);
      CHECK(fused(wide).flops() == narrow.flops());
    }
  }
}

TEST_CASE("a weight offset adds one operation for each element", "[ledger]") {
  const std::string op = GENERATE("rms_norm", "rms_norm_rope", "rms_norm_rope_quant");
  const auto plans = [&](int offset) {
    return changed(op, Convention::exact, [&](Arguments& a) { a.weight_offset = offset; });
  };
  CHECK(plans(1).unfused.flops() - plans(0).unfused.flops() == 4096 * 4096);
  CHECK(plans(1).fused.flops() - plans(0).fused.flops() == 4096 * 4096);
  CHECK(plans(1).fused.moved_bytes() == plans(0).fused.moved_bytes());
  CHECK_THROWS_WITH(plans(2), StartsWith("weight_offset: got 2"));
  CHECK_THROWS_WITH(changed(op, Convention::book, [](Arguments& a) { a.weight_offset = 1; }),
                    StartsWith("weight_offset: got 1"));
}

TEST_CASE("what is not fused moves more, at the smallest sizes too", "[ledger]") {
  for (const Operator& entry : operators()) {
    for (const Convention convention : {Convention::book, Convention::exact}) {
      if (!exists(entry, convention)) continue;
      Arguments least = entry.defaults;
      least.m = least.tokens = least.heads = 1;
      least.n = least.rope_dim = 2;
      const Case plans = entry.make_case(least, convention);
      CHECK(plans.fused.moved_bytes() < plans.unfused.moved_bytes());
    }
  }
}

TEST_CASE("a size below one is refused by name", "[ledger]") {
  const std::int64_t size = GENERATE(0, -1, -largest - 1);
  for (const Operator& entry : operators()) {
    for (const std::string_view argument : entry.arguments) {
      const Field& field = *find_field(argument);
      if (field.size == nullptr || argument == "group_size") continue;  // 0: the whole row
      Arguments arguments = entry.defaults;
      arguments.*field.size = size;
      const std::string refusal =
          std::string(argument) + ": got " + std::to_string(size) + "; allowed: ";
      CHECK_THROWS_WITH(entry.make_case(arguments, Convention::book), StartsWith(refusal));
      CHECK_THROWS_WITH(entry.make_case(arguments, Convention::exact), StartsWith(refusal));
    }
  }
}

TEST_CASE("rope_dim is even and fits the row", "[ledger]") {
  const auto make = [](std::string_view op, std::int64_t n, std::int64_t rope_dim) {
    return changed(op, Convention::exact, [&](Arguments& a) {
      a.n = n;
      a.rope_dim = rope_dim;
    });
  };
  for (const std::string_view op : {"rms_norm_rope", "rms_norm_rope_quant"}) {
    CHECK_NOTHROW(make(op, 5, 4));
    CHECK_NOTHROW(make(op, 4, 4));
    CHECK_THROWS_WITH(make(op, 4, 3), StartsWith("rope_dim: got 3; allowed: an even number"));
    CHECK_THROWS_WITH(make(op, 5, 6), StartsWith("rope_dim: got 6; allowed: an even number"));
  }
  CHECK_THROWS_WITH(make("rope", 4, 3), StartsWith("rope_dim: got 3; allowed: an even number"));
  CHECK_NOTHROW(make("rope", 4, 6));  // its rows are rope_dim wide, whatever n says
}

TEST_CASE("a group of columns divides the row", "[ledger]") {
  const auto group_size = GENERATE(-1, 3, 127, 4095, 8192);
  CHECK_THROWS_WITH(changed("rms_norm_rope_quant", Convention::exact,
                            [&](Arguments& a) { a.group_size = group_size; }),
                    StartsWith("group_size: got " + std::to_string(group_size)));
}

TEST_CASE("groups and y do not exist under the book convention", "[ledger]") {
  CHECK_THROWS_WITH(
      changed("rms_norm_rope_quant", Convention::book, [](Arguments& a) { a.group_size = 128; }),
      StartsWith("group_size: got 128; allowed: "));
  CHECK_THROWS_WITH(
      changed("rms_norm_rope_quant", Convention::book, [](Arguments& a) { a.with_y = true; }),
      StartsWith("with_y: got true; allowed: "));
}

TEST_CASE("dtypes that no tensor has here are refused by name", "[ledger]") {
  for (const Operator& entry : operators()) {
    for (const Dtype dtype : {Dtype::float8_e4m3fn, Dtype::int32, Dtype::int64}) {
      Arguments arguments = entry.defaults;
      arguments.dtype = dtype;
      CHECK_THROWS_WITH(entry.make_case(arguments, Convention::exact), StartsWith("dtype: got "));
    }
  }
  for (const Dtype dtype : {Dtype::float32, Dtype::int32, Dtype::int64}) {
    CHECK_THROWS_WITH(changed("rms_norm_rope_quant", Convention::exact,
                              [&](Arguments& a) { a.out_dtype = dtype; }),
                      StartsWith("out_dtype: got "));
  }
}

TEST_CASE("figures that pass int64 are refused, wherever they do", "[ledger]") {
  for (const Operator& entry : operators()) {
    for (const Convention convention : {Convention::book, Convention::exact}) {
      Arguments arguments = entry.defaults;  // elements: the product of two sizes
      arguments.m = arguments.tokens = std::int64_t{1} << 40;
      arguments.n = arguments.heads = std::int64_t{1} << 40;
      arguments.rope_dim = 128;
      if (entry.name != "scale_add") {
        CHECK_THROWS_AS(entry.make_case(arguments, convention), ArgumentError);
      }
      arguments.m = arguments.tokens = 1;  // bytes: elements fit, their kernels' sums do not
      arguments.n = largest / 4;
      arguments.heads = largest / 512;
      CHECK_THROWS_AS(entry.make_case(arguments, convention), ArgumentError);
    }
  }
}

TEST_CASE("a ledger just inside int64 is exact", "[ledger]") {
  // Unfused it moves 5 n of 4 bytes; 20 n is the largest figure.
  const std::int64_t n = largest / 20;
  const auto with_n = [](std::int64_t size) {
    return changed("scale_add", Convention::exact, [&](Arguments& a) { a.n = size; });
  };
  CHECK(with_n(n).unfused.moved_bytes() == 20 * n);
  CHECK_THROWS_AS(with_n(n + 1), ArgumentError);
}

}  // namespace opbook::ch13
