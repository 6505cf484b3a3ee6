#include "ch13_norm_rope/operators.hpp"

#include <string>
#include <utility>

#include "ch13_norm_rope/add_rms_norm.hpp"
#include "ch13_norm_rope/layer_norm.hpp"
#include "ch13_norm_rope/problem_parts.hpp"
#include "ch13_norm_rope/reference.hpp"
#include "ch13_norm_rope/rms_norm.hpp"
#include "ch13_norm_rope/rope_problems.hpp"
#include "ch13_norm_rope/scale_add.hpp"
#include "ch13_norm_rope/steps.hpp"
#include "common/random.hpp"

namespace opbook::ch13 {
namespace {

// Of each operator the CPU's or the GPU's: by what a plan runs on, a backend or a stream.
using cpu::add_rms_norm, gpu::add_rms_norm;
using cpu::add_rms_norm_unfused, gpu::add_rms_norm_unfused;
using cpu::layer_norm, gpu::layer_norm;
using cpu::layer_norm_unfused, gpu::layer_norm_unfused;
using cpu::rms_norm, gpu::rms_norm;
using cpu::rms_norm_unfused, gpu::rms_norm_unfused;
using cpu::scale_add, gpu::scale_add;
using cpu::scale_add_unfused, gpu::scale_add_unfused;

/// The same, each row moved by its first element, so that its mean is of the size of its spread: a
/// mean that is left out shows.
void fill_shifted_rows(Array& x, std::uint64_t seed) {
  fill_rows(x, seed);
  visit_input_dtype(x.dtype(), [&]<class T>() {
    const Rows<T> rows = x.rows<T>();
    for (std::int64_t i = 0; i < rows.rows(); ++i) {
      const Row<T> row = rows.row(i);
      const float shift = to_float(row.data[0]);
      for (std::int64_t j = 0; j < row.size; ++j) {
        row.data[j] = from_float<T>(to_float(row.data[j]) + shift);
      }
    }
  });
}

/// A bias: of both signs.
void fill_bias(Array& b, std::uint64_t seed) {
  fill_normal_like(b, seed);
}

Problem scale_add_problem(const Arguments& a) {
  const auto run = [=](auto& backend, PlanKind plan, auto& t) {
    visit_input_dtype(a.dtype, [&]<class T>() {
      const auto x = t.template row<T>("x"), b = t.template row<T>("b"), y = t.template row<T>("y");
      if (plan == PlanKind::fused) {
        scale_add(backend, x, a.scale, b, y);
      } else {
        scale_add_unfused(backend, x, a.scale, b, y, t.template row<T>("t"));
      }
    });
  };
  Problem problem = problem_of(
      "scale_add", a.dtype, {a.n}, scale_add_case(a, Convention::exact),
      {input("x", a.dtype, {a.n}, fill_activation), input("b", a.dtype, {a.n}, fill_bias),
       intermediate("t", a.dtype, {a.n}), output("y", a.dtype, {a.n})},
      run);
  problem.expect = [=](PlanKind plan, std::string_view kernel, Tensors& t, const Run&) {
    using namespace reference;
    const Array &x = t.at("x"), &b = t.at("b");
    if (plan == PlanKind::fused) return one_check("y", reference::scale_add(x, a.scale, b));
    if (kernel == "t") return one_check("t", multiply_scalar(x, a.scale));
    if (kernel == "y") return one_check("y", add(t.at("t"), b));
    return std::vector<Check>();
  };
  return problem;
}

/// What rms_norm's intermediates are, by name.
template <class T>
RmsNormIntermediates<T> rms_norm_intermediates(auto& t) {
  return {t.template rows<T>("x2"), t.template row<float>("mean"),
          t.template row<float>("mean_eps"), t.template row<float>("rstd"),
          t.template rows<T>("scaled")};
}

/// The checks of one of the unfused kernels that make y of x.
std::vector<Check> expect_rms_norm_kernel(std::string_view kernel, const Array& x, Tensors& t,
                                          const RmsNormOptions& options) {
  using namespace reference;
  if (kernel == "x2") return one_check("x2", square(x));
  if (kernel == "mean") return one_check("mean", row_mean(t.at("x2")));
  if (kernel == "mean_eps") return one_check("mean_eps", add_scalar(t.at("mean"), options.eps));
  if (kernel == "rstd") return one_check("rstd", reciprocal_sqrt(t.at("mean_eps")));
  if (kernel == "scaled") return one_check("scaled", scale_rows(x, t.at("rstd")));
  if (kernel == "y") {
    return one_check("y", multiply_columns(t.at("scaled"), t.at("w"), options.weight_offset));
  }
  return {};
}

Problem rms_norm_problem(const Arguments& a) {
  const RmsNormOptions options{a.eps, a.rounding, a.weight_offset};
  const auto run = [=](auto& backend, PlanKind plan, auto& t) {
    visit_input_dtype(a.dtype, [&]<class T>() {
      const auto x = t.template rows<T>("x"), y = t.template rows<T>("y");
      const auto w = t.template row<T>("w");
      if (plan == PlanKind::fused) {
        rms_norm(backend, x, w, y, options);
      } else {
        rms_norm_unfused(backend, x, w, y, rms_norm_intermediates<T>(t), options);
      }
    });
  };
  Problem problem = problem_of(
      "rms_norm", a.dtype, {a.m, a.n}, rms_norm_case(a, Convention::exact),
      {input("x", a.dtype, {a.m, a.n}, fill_rows), input("w", a.dtype, {a.n}, fill_weight),
       intermediate("x2", a.dtype, {a.m, a.n}), intermediate("mean", Dtype::float32, {a.m}),
       intermediate("mean_eps", Dtype::float32, {a.m}), intermediate("rstd", Dtype::float32, {a.m}),
       intermediate("scaled", a.dtype, {a.m, a.n}), output("y", a.dtype, {a.m, a.n})},
      run);
  add_steps(problem, rms_norm_steps, rms_norm_fused_adds,
            [=](RmsNormStep step, opbook::gpu::Stream stream, PlanKind, auto& t) {
              visit_input_dtype(a.dtype, [&]<class T>() {
                gpu::rms_norm_step<T>(stream, step, t.template rows<T>("x"), t.template row<T>("w"),
                                      t.template rows<T>("y"), options);
              });
            });
  problem.expect = [=](PlanKind plan, std::string_view kernel, Tensors& t, const Run&) {
    const Array& x = t.at("x");
    if (plan == PlanKind::fused) return one_check("y", reference::rms_norm(x, t.at("w"), options));
    return expect_rms_norm_kernel(kernel, x, t, options);
  };
  return problem;
}

Problem layer_norm_problem(const Arguments& a) {
  const auto run = [=](auto& backend, PlanKind plan, auto& t) {
    visit_input_dtype(a.dtype, [&]<class T>() {
      const auto x = t.template rows<T>("x"), y = t.template rows<T>("y");
      const auto g = t.template row<T>("g"), b = t.template row<T>("b");
      if (plan == PlanKind::fused) {
        layer_norm(backend, x, g, b, y, a.eps);
      } else {
        layer_norm_unfused(backend, x, g, b, y,
                           {t.template rows<T>("x2"), t.template row<float>("sum_x"),
                            t.template row<float>("sum_x2"), t.template row<float>("mean"),
                            t.template row<float>("rstd"), t.template rows<T>("centered"),
                            t.template rows<T>("scaled")},
                           a.eps);
      }
    });
  };
  Problem problem = problem_of(
      "layer_norm", a.dtype, {a.m, a.n}, layer_norm_case(a, Convention::exact),
      {input("x", a.dtype, {a.m, a.n}, fill_shifted_rows), input("g", a.dtype, {a.n}, fill_weight),
       input("b", a.dtype, {a.n}, fill_bias), intermediate("x2", a.dtype, {a.m, a.n}),
       intermediate("sum_x", Dtype::float32, {a.m}), intermediate("sum_x2", Dtype::float32, {a.m}),
       intermediate("mean", Dtype::float32, {a.m}), intermediate("rstd", Dtype::float32, {a.m}),
       intermediate("centered", a.dtype, {a.m, a.n}), intermediate("scaled", a.dtype, {a.m, a.n}),
       output("y", a.dtype, {a.m, a.n})},
      run);
  problem.expect = [=](PlanKind plan, std::string_view kernel, Tensors& t, const Run&) {
    using namespace reference;
    const Array &x = t.at("x"), &g = t.at("g"), &b = t.at("b");
    if (plan == PlanKind::fused) return one_check("y", reference::layer_norm(x, g, b, a.eps));
    if (kernel == "x2") return one_check("x2", square(x));
    if (kernel == "sum_x") return one_check("sum_x", row_sum(x));
    if (kernel == "sum_x2") return one_check("sum_x2", row_sum(t.at("x2")));
    if (kernel == "stats") {
      std::vector<Check> checks = one_check("mean", mean_of_sum(t.at("sum_x"), a.n));
      add_check(checks, "rstd", rstd_of_sums(t.at("sum_x"), t.at("sum_x2"), a.n, a.eps));
      return checks;
    }
    if (kernel == "centered") return one_check("centered", subtract_rows(x, t.at("mean")));
    if (kernel == "scaled") return one_check("scaled", scale_rows(t.at("centered"), t.at("rstd")));
    if (kernel == "y") return one_check("y", multiply_add_columns(t.at("scaled"), g, b));
    return std::vector<Check>();
  };
  return problem;
}

Problem add_rms_norm_problem(const Arguments& a) {
  const RmsNormOptions options{a.eps, a.rounding, a.weight_offset};
  const auto run = [=](auto& backend, PlanKind plan, auto& t) {
    visit_input_dtype(a.dtype, [&]<class T>() {
      const auto x = t.template rows<T>("x"), r = t.template rows<T>("r"),
                 s = t.template rows<T>("s"), y = t.template rows<T>("y");
      const auto w = t.template row<T>("w");
      if (plan == PlanKind::fused) {
        add_rms_norm(backend, x, r, w, s, y, options);
      } else {
        add_rms_norm_unfused(backend, x, r, w, s, y, rms_norm_intermediates<T>(t), options);
      }
    });
  };
  Problem problem = problem_of(
      "add_rms_norm", a.dtype, {a.m, a.n}, add_rms_norm_case(a, Convention::exact),
      {input("x", a.dtype, {a.m, a.n}, fill_rows), input("r", a.dtype, {a.m, a.n}, fill_rows),
       input("w", a.dtype, {a.n}, fill_weight), intermediate("x2", a.dtype, {a.m, a.n}),
       intermediate("mean", Dtype::float32, {a.m}), intermediate("mean_eps", Dtype::float32, {a.m}),
       intermediate("rstd", Dtype::float32, {a.m}), intermediate("scaled", a.dtype, {a.m, a.n}),
       output("s", a.dtype, {a.m, a.n}), output("y", a.dtype, {a.m, a.n})},
      run);
  problem.expect = [=](PlanKind plan, std::string_view kernel, Tensors& t, const Run&) {
    const Array& s = t.at("s");
    if (plan == PlanKind::unfused && kernel != "add") {
      return expect_rms_norm_kernel(kernel, s, t, options);
    }
    std::vector<Check> checks = one_check("s", reference::add(t.at("x"), t.at("r")));
    if (plan == PlanKind::fused) {  // y of the s that came out, which is rounded
      add_check(checks, "y", reference::rms_norm(s, t.at("w"), options));
    }
    return checks;
  };
  return problem;
}

}  // namespace

std::span<const Operator> operators() {
  static const std::vector<Operator> table = {
      {"scale_add",
       {},
       {"n", "dtype"},
       {{"x", {"n"}}, {"b", {"n"}}},
       {.n = 1 << 20, .dtype = Dtype::float32},
       scale_add_case,
       scale_add_problem,
       {"scale"}},
      {"rms_norm",
       {},
       {"m", "n", "dtype"},
       {{"x", {"m", "n"}}, {"w", {"n"}}},
       {.m = 4096, .n = 4096, .dtype = Dtype::float16},
       rms_norm_case,
       rms_norm_problem,
       {"eps", "rounding", "weight_offset"}},
      {"layer_norm",
       {},
       {"m", "n", "dtype"},
       {{"x", {"m", "n"}}, {"g", {"n"}}, {"b", {"n"}}},
       {.m = 4096, .n = 4096, .dtype = Dtype::bfloat16},
       layer_norm_case,
       layer_norm_problem,
       {"eps"}},
      {"rope",
       {},
       {"tokens", "heads", "rope_dim", "dtype"},
       {{"x", {"tokens", "heads", "rope_dim"}}, {"cos", {}}, {"sin", {}}, {"positions", {}}},
       {.tokens = 4096, .heads = 32, .rope_dim = 128, .dtype = Dtype::float16},
       rope_case,
       rope_problem},
      {"rms_norm_rope",
       {},
       {"m", "n", "rope_dim", "dtype"},
       {{"x", {"m", "n"}}, {"w", {"n"}}, {"cos", {}}, {"sin", {}}, {"positions", {}}},
       {.m = 4096, .n = 4096, .rope_dim = 128, .dtype = Dtype::bfloat16},
       rms_norm_rope_case,
       rms_norm_rope_problem,
       {"eps", "rounding", "weight_offset"}},
      {"rms_norm_rope_quant",
       {"norm_rope_quant"},
       {"m", "n", "rope_dim", "dtype", "out_dtype", "group_size", "with_y"},
       {{"x", {"m", "n"}}, {"w", {"n"}}, {"cos", {}}, {"sin", {}}, {"positions", {}}},
       {.m = 4096, .n = 4096, .rope_dim = 128, .dtype = Dtype::bfloat16},
       rms_norm_rope_quant_case,
       rms_norm_rope_quant_problem,
       {"eps", "rounding", "weight_offset"}},
      {"add_rms_norm",
       {},
       {"m", "n", "dtype"},
       {{"x", {"m", "n"}}, {"r", {"m", "n"}}, {"w", {"n"}}},
       {.m = 4096, .n = 4096, .dtype = Dtype::bfloat16},
       add_rms_norm_case,
       add_rms_norm_problem,
       {"eps", "rounding", "weight_offset"}},
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
