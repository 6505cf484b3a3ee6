#include "ch28_design/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "ch28_design/qk_norm_rope_quant.hpp"
#include "ch28_design/reference.hpp"
#include "common/cuda/device_tensors.hpp"
#include "common/error.hpp"
#include "common/random.hpp"
#include "common/rope_table.hpp"

namespace opbook::ch28 {
namespace {

// The CPU's or the GPU's: by what a plan runs on, a backend or a stream.
using cpu::qk_norm_rope_quant, gpu::qk_norm_rope_quant;
using cpu::qk_norm_rope_quant_unfused, gpu::qk_norm_rope_quant_unfused;

template <class F>
void visit_dtype(Dtype dtype, F&& f) {
  if (dtype == Dtype::bfloat16) return f.template operator()<bfloat16>();
  if (dtype == Dtype::float16) return f.template operator()<float16>();
  throw ArgumentError(
      fmt::format("dtype: got {}; allowed: bfloat16, float16", opbook::name_of(dtype)));
}

bool has_positions(const RunArguments& a) {
  return a.options.positions.table_rows > 0;
}

std::int64_t heads_in_memory(const RunArguments& a) {
  return a.sizes.heads() + (a.layout == Layout::qkv ? a.sizes.kv_heads : 0);
}

/// Rows of many scales, the first so small that eps decides its result: a wrong eps shows.
void fill_heads(Array& x, std::uint64_t seed) {
  fill_activation(x, seed);
  visit_dtype(x.dtype(), [&]<class T>() {
    const Row<T> first = x.rows<T>().row(0);
    for (std::int64_t j = 0; j < first.size; ++j) {
      first.data[j] = from_float<T>(to_float(first.data[j]) * 0x1p-10f);
    }
  });
}

/// Sequences that start again and again: 0, 1, 2, 0, 1, 2, ...
template <class Index>
void fill_restarting(Row<Index> positions, std::int64_t distinct) {
  for (std::int64_t i = 0; i < positions.size; ++i) {
    positions.data[i] = static_cast<Index>(i % distinct);
  }
}

std::vector<TensorSpec> tensors_of(const RunArguments& a) {
  const auto& [sizes, options, design, layout, eps] = a;
  const std::int64_t dh = sizes.head_dim, tokens = sizes.tokens;
  std::vector<TensorSpec> tensors;
  const auto add = [&](const char* name, Role role, Dtype dtype, std::vector<std::int64_t> shape,
                       std::function<void(Array&, std::uint64_t)> fill = nullptr) {
    tensors.push_back({name, role, dtype, std::move(shape), std::move(fill)});
  };
  add("x", Role::input, options.dtype, {tokens, heads_in_memory(a), dh}, fill_heads);
  if (sizes.q_heads > 0) add("q_weight", Role::input, options.dtype, {dh}, fill_weight);
  if (sizes.kv_heads > 0) add("k_weight", Role::input, options.dtype, {dh}, fill_weight);
  const std::int64_t table_rows = has_positions(a) ? options.positions.table_rows : tokens;
  for (const auto& [name, wave] : {std::pair{"cos", Wave::cosine}, {"sin", Wave::sine}}) {
    add(name, Role::input, Dtype::float32, {table_rows, sizes.turned() / 2},
        [wave = wave](Array& table, std::uint64_t) { fill_rope_table(table, wave); });
  }
  if (has_positions(a)) {
    add("positions", Role::input, options.positions.dtype, {tokens},
        [distinct = options.positions.distinct](Array& array, std::uint64_t) {
          if (array.dtype() == Dtype::int32) {
            fill_restarting(array.row<std::int32_t>(), distinct);
          } else {
            fill_restarting(array.row<std::int64_t>(), distinct);
          }
        });
  }
  const std::vector<std::int64_t> rows{tokens, sizes.heads(), dh};
  add("normed", Role::intermediate, options.dtype, rows);
  add("rotated", Role::intermediate, options.dtype, rows);
  add("codes", Role::output, Dtype::float8_e4m3fn, rows);
  add("scale", Role::output, Dtype::float32, {tokens * sizes.heads()});
  add("y", options.with_y ? Role::output : Role::witness, Dtype::float32, rows);
  return tensors;
}

/// Heads `first` up to first + count of each token, whose rows may lie apart.
template <class T>
Rows<T> part_of(Rows<T> rows, const RunArguments& a, std::int64_t first, std::int64_t count) {
  const std::int64_t stride = rows.outer_stride;
  return {rows.data + first * stride,  a.sizes.tokens, count, rows.cols,
          heads_in_memory(a) * stride, stride};
}

template <class T>
QkHeads<T> inputs_of(const RunArguments& a, auto& t) {
  const Rows<const T> x = t.template rows<T>("x");
  QkHeads<T> in;
  in.q = part_of(x, a, 0, a.sizes.q_heads);
  in.k = part_of(x, a, a.sizes.q_heads, a.sizes.kv_heads);
  if (a.sizes.q_heads > 0) in.q_weight = t.template row<T>("q_weight");
  if (a.sizes.kv_heads > 0) in.k_weight = t.template row<T>("k_weight");
  in.rope = {t.template rows<float>("cos"), t.template rows<float>("sin"), {}};
  if (has_positions(a) && a.options.positions.dtype == Dtype::int32) {
    in.rope.positions = Row<const std::int32_t>(t.template row<std::int32_t>("positions"));
  } else if (has_positions(a)) {
    in.rope.positions = Row<const std::int64_t>(t.template row<std::int64_t>("positions"));
  }
  return in;
}

QuantisedHeads outputs_of(auto& t, bool with_y) {
  return {t.template rows<float8_e4m3fn>("codes"), t.template row<float>("scale"),
          with_y ? t.template rows<float>("y") : Rows<float>{}};
}

reference::Heads reference_heads(const RunArguments& a, Tensors& t) {
  const auto& sizes = a.sizes;
  return {t.at("x"),
          sizes.tokens,
          sizes.q_heads,
          sizes.kv_heads,
          sizes.q_heads > 0 ? &t.at("q_weight") : nullptr,
          sizes.kv_heads > 0 ? &t.at("k_weight") : nullptr,
          a.eps};
}

reference::Tables reference_tables(const RunArguments& a, Tensors& t) {
  return {t.at("cos"), t.at("sin"), has_positions(a) ? &t.at("positions") : nullptr};
}

void add_check(std::vector<Check>& checks, const char* tensor, reference::Reference reference) {
  checks.push_back({tensor, std::move(reference.expected), reference.tolerance_ulp});
}

/// Scales and codes of the y that came out: equal in value, and to the bit.
void add_quantisation(std::vector<Check>& checks, const Array& y) {
  constexpr double exactly = 0.25;  // ulps: no other float32 lies this near
  reference::Quantisation expected = reference::quantise(y);
  Check scale{"scale", {}, exactly};
  for (std::int64_t i = 0; i < expected.scale.elements(); ++i) {
    scale.expected.value.push_back(expected.scale.value(i));
  }
  checks.push_back(std::move(scale));
  checks.push_back({"codes", {}, 0.5, std::make_shared<Array>(std::move(expected.codes))});
}

/// Runs once more, now with y: codes and scales must be those of the run without.
void add_witnessed_run(std::vector<Check>& checks, Tensors& t, const Run& run) {
  for (const char* const name : {"codes", "scale"}) {
    Array& array = t.at(name);
    const auto without = std::make_shared<Array>(name, array.dtype(), array.shape());
    std::copy_n(array.raw(), array.bytes(), without->raw());
    array.poison();
    checks.push_back({name, {}, 0.5, without});
  }
  run(PlanKind::witnessed, t);
}

std::vector<Check> expected(const RunArguments& a, PlanKind plan, std::string_view kernel,
                            Tensors& t, const Run& run) {
  std::vector<Check> checks;
  if (plan == PlanKind::fused) {
    if (!a.options.with_y) add_witnessed_run(checks, t, run);
    add_check(checks, "y", reference::y(reference_heads(a, t), reference_tables(a, t)));
    add_quantisation(checks, t.at("y"));
  } else if (kernel == "norm") {
    add_check(checks, "normed", reference::normed(reference_heads(a, t)));
  } else if (kernel == "rope") {
    add_check(checks, "rotated",
              reference::rotated(t.at("normed"), a.sizes.heads(), reference_tables(a, t)));
  } else if (kernel == "quant") {
    add_quantisation(checks, t.at("rotated"));
  }
  return checks;
}

/// Both plans on a backend, or on a stream and a device's tensors.
void run_plan(auto& on, const RunArguments& a, PlanKind plan, auto& t) {
  visit_dtype(a.options.dtype, [&]<class T>() {
    const QkOptions options{a.eps, a.design, a.sizes.rows_per_block};
    const QkHeads<T> in = inputs_of<T>(a, t);
    if (plan == PlanKind::unfused) {
      const QkIntermediates<T> intermediates{t.template rows<T>("normed"),
                                             t.template rows<T>("rotated")};
      qk_norm_rope_quant_unfused(on, in, outputs_of(t, false), intermediates, options);
    } else {
      const bool with_y = a.options.with_y || plan == PlanKind::witnessed;
      qk_norm_rope_quant(on, in, outputs_of(t, with_y), options);
    }
  });
}

}  // namespace

Problem make_problem(const RunArguments& a) {
  visit_dtype(a.options.dtype, []<class T>() {});
  if (a.design == Design::B && (a.sizes.rows_per_block < 2 || a.sizes.rows_per_block > 64)) {
    throw ArgumentError(
        fmt::format("rows_per_block: got {}; allowed: 2 to 64", a.sizes.rows_per_block));
  }
  Problem problem;
  problem.op = "qk_norm_rope_quant";
  problem.dtype = a.options.dtype;
  problem.ledger = qk_norm_rope_quant_case(a.sizes, a.options);
  if (a.design != Design::D) {
    problem.fused_by_call = kernel_by_block(a.sizes, a.options, a.design);
  }
  problem.shape = {a.sizes.tokens, heads_in_memory(a), a.sizes.head_dim};
  problem.tensors = tensors_of(a);
  problem.run = [a](Fast& fast, PlanKind plan, Tensors& t) { run_plan(fast, a, plan, t); };
  problem.replay = [a](Metered& metered, PlanKind plan, Tensors& t) {
    run_plan(metered, a, plan, t);
  };
  problem.run_on_gpu = [a](opbook::gpu::Stream stream, PlanKind plan,
                           opbook::gpu::DeviceTensors& t) { run_plan(stream, a, plan, t); };
  problem.expect = [a](PlanKind plan, std::string_view kernel, Tensors& t, const Run& run) {
    return expected(a, plan, kernel, t, run);
  };
  problem.with_rows = [a](std::int64_t tokens) {
    RunArguments changed = a;
    changed.sizes.tokens = tokens;
    return make_problem(changed);
  };
  return problem;
}

}  // namespace opbook::ch28
