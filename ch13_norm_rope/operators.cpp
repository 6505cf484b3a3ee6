#include "ch13_norm_rope/operators.hpp"

#include <string>
#include <utility>

#include "ch13_norm_rope/reference.hpp"
#include "ch13_norm_rope/rms_norm.hpp"
#include "common/random.hpp"

namespace opbook::ch13 {
namespace {

/// Rows of many scales, the first so small that eps decides its result: a wrong eps shows.
void fill_rows(Array& x, std::uint64_t seed) {
  fill_activation(x, seed);
  visit_input_dtype(x.dtype(), [&]<class T>() {
    const Row<T> first = x.rows<T>().row(0);
    for (std::int64_t j = 0; j < first.size; ++j) {
      first.data[j] = from_float<T>(to_float(first.data[j]) * 0x1p-10f);
    }
  });
}

TensorSpec input(std::string name, Dtype dtype, std::vector<std::int64_t> shape,
                 void (*fill)(Array&, std::uint64_t)) {
  return {std::move(name), Role::input, dtype, std::move(shape), fill};
}
TensorSpec intermediate(std::string name, Dtype dtype, std::vector<std::int64_t> shape) {
  return {std::move(name), Role::intermediate, dtype, std::move(shape), nullptr};
}
TensorSpec output(std::string name, Dtype dtype, std::vector<std::int64_t> shape) {
  return {std::move(name), Role::output, dtype, std::move(shape), nullptr};
}

std::vector<Check> one_check(std::string tensor, reference::Reference reference) {
  std::vector<Check> checks;
  checks.push_back({std::move(tensor), std::move(reference.expected), reference.tolerance_ulp});
  return checks;
}

/// A problem whose plans are `run`, a generic callable over (backend, plan, tensors): the same
/// source on the fast and on the metered backend.
template <class Run>
Problem problem_of(std::string op, Dtype dtype, std::vector<std::int64_t> shape, Case ledger,
                   std::vector<TensorSpec> tensors, Run run) {
  Problem problem;
  problem.op = std::move(op);
  problem.dtype = dtype;
  problem.shape = std::move(shape);
  problem.ledger = std::move(ledger);
  problem.tensors = std::move(tensors);
  problem.run = run;
  problem.replay = run;
  return problem;
}

Problem rms_norm_problem(const Arguments& a) {
  const auto [m, n, dtype] = std::tuple(a.m, a.n, a.dtype);
  const RmsNormOptions options{a.eps, a.rounding, a.weight_offset};
  const auto run = [=](auto& backend, PlanKind plan, Tensors& t) {
    visit_input_dtype(dtype, [&]<class T>() {
      const auto x = t.rows<T>("x"), y = t.rows<T>("y");
      const auto w = t.row<T>("w");
      if (plan == PlanKind::fused) {
        cpu::rms_norm(backend, x, w, y, options);
      } else {
        cpu::rms_norm_unfused(backend, x, w, y,
                              {t.rows<T>("x2"), t.row<float>("mean"), t.row<float>("mean_eps"),
                               t.row<float>("rstd"), t.rows<T>("scaled")},
                              options);
      }
    });
  };
  Problem problem = problem_of(
      "rms_norm", dtype, {m, n}, rms_norm_case(a, Convention::exact),
      {input("x", dtype, {m, n}, fill_rows), input("w", dtype, {n}, fill_weight),
       intermediate("x2", dtype, {m, n}), intermediate("mean", Dtype::float32, {m}),
       intermediate("mean_eps", Dtype::float32, {m}), intermediate("rstd", Dtype::float32, {m}),
       intermediate("scaled", dtype, {m, n}), output("y", dtype, {m, n})},
      run);
  problem.expect = [=](PlanKind plan, std::string_view kernel, Tensors& t) {
    using namespace reference;
    const Array& x = t.at("x");
    if (plan == PlanKind::fused) return one_check("y", rms_norm(x, t.at("w"), options));
    if (kernel == "x2") return one_check("x2", square(x));
    if (kernel == "mean") return one_check("mean", row_mean(t.at("x2")));
    if (kernel == "mean_eps") return one_check("mean_eps", add_scalar(t.at("mean"), options.eps));
    if (kernel == "rstd") return one_check("rstd", reciprocal_sqrt(t.at("mean_eps")));
    if (kernel == "scaled") return one_check("scaled", scale_rows(x, t.at("rstd")));
    if (kernel == "y") {
      return one_check("y", multiply_columns(t.at("scaled"), t.at("w"), options.weight_offset));
    }
    return std::vector<Check>();
  };
  return problem;
}

}  // namespace

std::span<const Operator> operators() {
  static const std::vector<Operator> table = {
      {"scale_add",
       {},
       {"n", "dtype"},
       {.n = 1 << 20, .dtype = Dtype::float32},
       scale_add_case,
       nullptr},
      {"rms_norm",
       {},
       {"m", "n", "dtype"},
       {.m = 4096, .n = 4096, .dtype = Dtype::float16},
       rms_norm_case,
       rms_norm_problem},
      {"layer_norm",
       {},
       {"m", "n", "dtype"},
       {.m = 4096, .n = 4096, .dtype = Dtype::bfloat16},
       layer_norm_case,
       nullptr},
      {"rope",
       {},
       {"tokens", "heads", "rope_dim", "dtype"},
       {.tokens = 4096, .heads = 32, .rope_dim = 128, .dtype = Dtype::float16},
       rope_case,
       nullptr},
      {"rms_norm_rope",
       {},
       {"m", "n", "rope_dim", "dtype"},
       {.m = 4096, .n = 4096, .rope_dim = 128, .dtype = Dtype::bfloat16},
       rms_norm_rope_case,
       nullptr},
      {"rms_norm_rope_quant",
       {"norm_rope_quant"},
       {"m", "n", "rope_dim", "dtype", "out_dtype", "group_size", "with_y"},
       {.m = 4096, .n = 4096, .rope_dim = 128, .dtype = Dtype::bfloat16},
       rms_norm_rope_quant_case,
       nullptr},
  };
  return table;
}

const Operator* find_operator(std::string_view name) {
  for (const Operator& entry : operators()) {
    if (entry.name == name) return &entry;
    for (const std::string_view alias : entry.aliases) {
      if (alias == name) return &entry;
    }
  }
  return nullptr;
}

}  // namespace opbook::ch13
