#include "ch13_norm_rope/rope_problems.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "ch13_norm_rope/ledger.hpp"
#include "ch13_norm_rope/problem_parts.hpp"
#include "ch13_norm_rope/reference_rope.hpp"
#include "ch13_norm_rope/rms_norm_rope.hpp"
#include "ch13_norm_rope/rms_norm_rope_quant.hpp"
#include "ch13_norm_rope/rope.hpp"
#include "ch13_norm_rope/steps.hpp"
#include "common/rope_table.hpp"

namespace opbook::ch13 {
namespace {

// Of each operator the CPU's or the GPU's: by what a plan runs on, a backend or a stream.
using cpu::rms_norm_rope, gpu::rms_norm_rope;
using cpu::rms_norm_rope_quant, gpu::rms_norm_rope_quant;
using cpu::rms_norm_rope_quant_unfused, gpu::rms_norm_rope_quant_unfused;
using cpu::rms_norm_rope_unfused, gpu::rms_norm_rope_unfused;
using cpu::rope, gpu::rope;
using cpu::rope_unfused, gpu::rope_unfused;

bool has_positions(const Arguments& a) {
  return a.positions.table_rows > 0;
}

/// Sequences that start again and again: 0, 1, 2, 0, 1, 2, ...
template <class Index>
void fill_positions(Row<Index> positions, std::int64_t distinct) {
  for (std::int64_t i = 0; i < positions.size; ++i) {
    positions.data[i] = static_cast<Index>(i % distinct);
  }
}

/// cos, sin and, where there are any, positions: what turns `tokens` tokens.
void add_table_inputs(std::vector<TensorSpec>& tensors, const Arguments& a, std::int64_t tokens) {
  const std::int64_t rows = has_positions(a) ? a.positions.table_rows : tokens;
  const auto fill = [](Wave wave) {
    return [wave](Array& table, std::uint64_t) { fill_rope_table(table, wave); };
  };
  tensors.push_back(input("cos", a.dtype, {rows, a.rope_dim / 2}, fill(Wave::cosine)));
  tensors.push_back(input("sin", a.dtype, {rows, a.rope_dim / 2}, fill(Wave::sine)));
  if (!has_positions(a)) return;
  const auto restart = [distinct = a.positions.distinct](Array& array, std::uint64_t) {
    if (array.dtype() == Dtype::int32) {
      fill_positions(array.row<std::int32_t>(), distinct);
    } else {
      fill_positions(array.row<std::int64_t>(), distinct);
    }
  };
  tensors.push_back(input("positions", a.positions.dtype, {tokens}, restart));
}

template <class T>
RopeTables<T> tables_of(const Arguments& a, auto& t) {
  RopeTables<T> tables{t.template rows<T>("cos"), t.template rows<T>("sin")};
  if (!has_positions(a)) return tables;
  if (a.positions.dtype == Dtype::int32) {
    tables.positions = Row<const std::int32_t>(t.template row<std::int32_t>("positions"));
  } else {
    tables.positions = Row<const std::int64_t>(t.template row<std::int64_t>("positions"));
  }
  return tables;
}

const Array* positions_of(const Arguments& a, Tensors& t) {
  return has_positions(a) ? &t.at("positions") : nullptr;
}

reference::Tables reference_tables(const Arguments& a, Tensors& t) {
  return {t.at("cos"), t.at("sin"), positions_of(a, t)};
}

/// Rows that follow each other, dealt out to tokens.
template <class T>
Rows<T> by_token(Rows<T> rows, std::int64_t heads) {
  return {rows.data, rows.outer / heads,        heads,
          rows.cols, heads * rows.outer_stride, rows.outer_stride};
}

RmsNormOptions norm_options(const Arguments& a) {
  return {a.eps, a.rounding, a.weight_offset};
}

/// x, w and the tables.
std::vector<TensorSpec> norm_rope_inputs(const Arguments& a) {
  std::vector<TensorSpec> tensors{input("x", a.dtype, {a.m, a.n}, fill_rows),
                                  input("w", a.dtype, {a.n}, fill_weight)};
  add_table_inputs(tensors, a, a.m);
  return tensors;
}

/// Scales as the operator takes them: a vector [m] is m rows of one.
Rows<float> scale_rows(const Arguments& a, Rows<float> scale) {
  return a.group_size > 0 ? scale : one_a_row(scale.row(0));
}

/// The fused plan. Without y it is what is timed; with y, what was quantised can be looked at.
template <class T, class Backend>
void run_fused_quant(Backend& backend, const Arguments& a, auto& t, Rows<float8_e4m3fn> q,
                     Rows<float> scale, Rows<T> y) {
  rms_norm_rope_quant(backend, t.template rows<T>("x"), t.template row<T>("w"), tables_of<T>(a, t),
                      Quantised<T>{q, scale_rows(a, scale), y}, {norm_options(a), a.group_size});
}

/// Scales and codes of the y that came out, to the bit.
void add_quantisation(std::vector<Check>& checks, const Array& y, std::int64_t group_size) {
  reference::Quantisation expected = reference::quantise(y, group_size);
  add_check(checks, "scale", std::move(expected.scale));
  checks.push_back({"q", {}, 0.5, std::make_shared<Array>(std::move(expected.q))});
}

/// Runs once more, now with y: codes and scales must be those of the run without.
void add_witnessed_run(std::vector<Check>& checks, Tensors& t, const Run& run) {
  for (const char* const name : {"q", "scale"}) {
    Array& array = t.at(name);
    const auto without = std::make_shared<Array>(name, array.dtype(), array.shape());
    std::copy_n(array.raw(), array.bytes(), without->raw());
    array.poison();
    checks.push_back({name, {}, 0.5, without});
  }
  run(PlanKind::witnessed, t);
}

}  // namespace

Problem rope_problem(const Arguments& a) {
  const std::vector<std::int64_t> shape{a.tokens, a.heads, a.rope_dim};
  const Case ledger = rope_case(a, Convention::exact);
  std::vector<TensorSpec> tensors{input("x", a.dtype, shape, fill_rows)};
  add_table_inputs(tensors, a, a.tokens);
  for (const char* name : {"rot", "t", "u"}) tensors.push_back(intermediate(name, a.dtype, shape));
  tensors.push_back(output("y", a.dtype, shape));

  const auto run = [=](auto& backend, PlanKind plan, auto& t) {
    visit_input_dtype(a.dtype, [&]<class T>() {
      const auto heads_of = [&](const char* name) {
        return by_token(t.template rows<T>(name), a.heads);
      };
      if (plan == PlanKind::fused) {
        rope(backend, heads_of("x"), tables_of<T>(a, t), heads_of("y"));
      } else {
        rope_unfused(backend, heads_of("x"), tables_of<T>(a, t), heads_of("y"),
                     RopeIntermediates<T>{heads_of("rot"), heads_of("t"), heads_of("u")});
      }
    });
  };
  Problem problem = problem_of("rope", a.dtype, shape, ledger, std::move(tensors), run);
  problem.expect = [=](PlanKind plan, std::string_view kernel, Tensors& t, const Run&) {
    using namespace reference;
    const Array &x = t.at("x"), *positions = positions_of(a, t);
    if (plan == PlanKind::fused) return one_check("y", reference::rope(x, reference_tables(a, t)));
    if (kernel == "rot") return one_check("rot", swap_halves(x));
    if (kernel == "t") return one_check("t", multiply_table(x, t.at("cos"), positions));
    if (kernel == "u") return one_check("u", multiply_table(t.at("rot"), t.at("sin"), positions));
    if (kernel == "y") return one_check("y", add(t.at("t"), t.at("u")));
    return std::vector<Check>();
  };
  return problem;
}

Problem rms_norm_rope_problem(const Arguments& a) {
  const Case ledger = rms_norm_rope_case(a, Convention::exact);
  std::vector<TensorSpec> tensors = norm_rope_inputs(a);
  tensors.push_back(intermediate("normed", a.dtype, {a.m, a.n}));
  tensors.push_back(output("y", a.dtype, {a.m, a.n}));

  const auto run = [=](auto& backend, PlanKind plan, auto& t) {
    visit_input_dtype(a.dtype, [&]<class T>() {
      const auto x = t.template rows<T>("x"), y = t.template rows<T>("y");
      const auto w = t.template row<T>("w");
      if (plan == PlanKind::fused) {
        rms_norm_rope(backend, x, w, tables_of<T>(a, t), y, norm_options(a));
      } else {
        rms_norm_rope_unfused(backend, x, w, tables_of<T>(a, t), y, t.template rows<T>("normed"),
                              norm_options(a));
      }
    });
  };
  Problem problem =
      problem_of("rms_norm_rope", a.dtype, {a.m, a.n}, ledger, std::move(tensors), run);
  problem.expect = [=](PlanKind plan, std::string_view kernel, Tensors& t, const Run&) {
    const Array &x = t.at("x"), &w = t.at("w");
    const reference::Tables tables = reference_tables(a, t);
    if (plan == PlanKind::fused) {
      return one_check("y", reference::rms_norm_rope(x, w, tables, norm_options(a)));
    }
    if (kernel == "norm") return one_check("normed", reference::rms_norm(x, w, norm_options(a)));
    if (kernel == "rope") return one_check("y", reference::rope(t.at("normed"), tables));
    return std::vector<Check>();
  };
  return problem;
}

Problem rms_norm_rope_quant_problem(const Arguments& a) {
  if (a.out_dtype != Dtype::float8_e4m3fn) {
    throw ArgumentError(fmt::format("out_dtype: got {}; allowed: float8_e4m3fn, the one that runs",
                                    name_of(a.out_dtype)));
  }
  const Case ledger = rms_norm_rope_quant_case(a, Convention::exact);
  const std::vector<std::int64_t> shape{a.m, a.n};
  const auto scales = a.group_size > 0 ? std::vector{a.m, a.n / a.group_size} : std::vector{a.m};
  // Where y is no output, the unfused plan stores it between its kernels under another name.
  const char* const rotated = a.with_y ? "y" : "rotated";
  std::vector<TensorSpec> tensors = norm_rope_inputs(a);
  tensors.push_back(intermediate("normed", a.dtype, shape));
  if (!a.with_y) tensors.push_back(intermediate("rotated", a.dtype, shape));
  tensors.push_back(output("q", Dtype::float8_e4m3fn, shape));
  tensors.push_back(output("scale", Dtype::float32, scales));
  tensors.push_back({"y", a.with_y ? Role::output : Role::witness, a.dtype, shape, nullptr});

  const auto run = [=](auto& backend, PlanKind plan, auto& t) {
    visit_input_dtype(a.dtype, [&]<class T>() {
      const auto q = t.template rows<float8_e4m3fn>("q");
      const auto scale = t.template rows<float>("scale");
      if (plan != PlanKind::unfused) {
        const bool writes_y = a.with_y || plan == PlanKind::witnessed;
        run_fused_quant(backend, a, t, q, scale, writes_y ? t.template rows<T>("y") : Rows<T>{});
      } else {
        rms_norm_rope_quant_unfused(
            backend, t.template rows<T>("x"), t.template row<T>("w"), tables_of<T>(a, t),
            Quantised<T>{q, scale_rows(a, scale), t.template rows<T>(rotated)},
            t.template rows<T>("normed"), {norm_options(a), a.group_size});
      }
    });
  };
  Problem problem =
      problem_of("rms_norm_rope_quant", a.dtype, shape, ledger, std::move(tensors), run);
  add_steps(problem, quant_steps, quant_fused_adds,
            [=](QuantStep step, opbook::gpu::Stream stream, PlanKind plan, auto& t) {
              const bool writes_y = a.with_y || plan == PlanKind::witnessed;
              visit_input_dtype(a.dtype, [&]<class T>() {
                gpu::rms_norm_rope_quant_step<T>(
                    stream, step, t.template rows<T>("x"), t.template row<T>("w"),
                    tables_of<T>(a, t),
                    Quantised<T>{t.template rows<float8_e4m3fn>("q"),
                                 scale_rows(a, t.template rows<float>("scale")),
                                 writes_y ? t.template rows<T>("y") : Rows<T>{}},
                    {norm_options(a), a.group_size});
              });
            });
  problem.expect = [=](PlanKind plan, std::string_view kernel, Tensors& t, const Run& run) {
    const Array &x = t.at("x"), &w = t.at("w");
    const reference::Tables tables = reference_tables(a, t);
    std::vector<Check> checks;
    if (plan == PlanKind::fused) {
      if (!a.with_y) add_witnessed_run(checks, t, run);
      add_check(checks, "y", reference::rms_norm_rope(x, w, tables, norm_options(a)));
      add_quantisation(checks, t.at("y"), a.group_size);
    }
    if (kernel == "norm") add_check(checks, "normed", reference::rms_norm(x, w, norm_options(a)));
    if (kernel == "rope") add_check(checks, rotated, reference::rope(t.at("normed"), tables));
    if (kernel == "quant") add_quantisation(checks, t.at(rotated), a.group_size);
    return checks;
  };
  return problem;
}

}  // namespace opbook::ch13
