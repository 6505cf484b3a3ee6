#include "ch13_norm_rope/ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/checked.hpp"

namespace opbook::ch13 {
namespace {

/// FLOPs as they are written on paper: {{4, mn}, {3, m}} is 4 mn + 3 m.
std::int64_t flops(std::initializer_list<std::pair<std::int64_t, std::int64_t>> terms) {
  std::int64_t sum = 0;
  for (const auto& [count, each] : terms) sum = checked_add({sum, checked_mul({count, each})});
  return sum;
}

void require_sizes(std::initializer_list<std::pair<std::string_view, std::int64_t>> sizes) {
  for (const auto& [name, size] : sizes) {
    if (size < 1) {
      throw ArgumentError(
          fmt::format("{}: got {}; allowed: a whole number above zero", name, size));
    }
  }
}

void require_dtype(std::string_view name, Dtype dtype, std::span<const Dtype> allowed) {
  if (std::find(allowed.begin(), allowed.end(), dtype) != allowed.end()) return;
  std::string names;
  for (const Dtype one : allowed)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(one));
  throw ArgumentError(fmt::format("{}: got {}; allowed: {}", name, name_of(dtype), names));
}

void require_rope_dim(std::int64_t rope_dim) {
  require_sizes({{"rope_dim", rope_dim}});
  if (rope_dim % 2 != 0) {
    throw ArgumentError(fmt::format("rope_dim: got {}; allowed: an even number", rope_dim));
  }
}

void require_rope_dim(std::int64_t rope_dim, std::int64_t n) {
  require_rope_dim(rope_dim);
  if (rope_dim > n) {
    throw ArgumentError(
        fmt::format("rope_dim: got {}; allowed: an even number, at most n = {}", rope_dim, n));
  }
}

void require_weight_offset(int offset, Convention convention) {
  const bool exact = convention == Convention::exact;
  if (offset == 0 || (exact && offset == 1)) return;
  throw ArgumentError(fmt::format("weight_offset: got {}; allowed: {}", offset,
                                  exact ? "0 or 1" : "0, or 1 under the exact convention"));
}

void require_quantisation(const Arguments& a, Convention convention) {
  require_dtype("out_dtype", a.out_dtype, code_dtypes);
  if (convention == Convention::book) {
    constexpr auto refusal = "{}: got {}; allowed: only under the exact convention";
    if (a.group_size != 0) throw ArgumentError(fmt::format(refusal, "group_size", a.group_size));
    if (a.with_y) throw ArgumentError(fmt::format(refusal, "with_y", a.with_y));
  }
  if (a.group_size < 0 || (a.group_size > 0 && a.n % a.group_size != 0)) {
    throw ArgumentError(
        fmt::format("group_size: got {}; allowed: a divisor of n = {}", a.group_size, a.n));
  }
}

/// The case, once it is known that all its figures fit int64.
Case checked(std::string op, Plan unfused, Plan fused) {
  for (const Plan* plan : {&unfused, &fused}) {
    plan->moved_bytes();
    plan->flops();
  }
  return {std::move(op), std::move(unfused), std::move(fused)};
}

/// RMSNorm in one kernel. The book counts the addition of eps and not the division by n, or the
/// other way round.
std::int64_t rms_norm_flops(const Arguments& a, std::int64_t mn, Convention convention) {
  return flops({{4 + a.weight_offset, mn}, {convention == Convention::exact ? 3 : 2, a.m}});
}

/// What RMSNorm asks of its arguments; returns mn.
std::int64_t require_rms_norm(const Arguments& a, Convention convention) {
  require_sizes({{"m", a.m}, {"n", a.n}});
  require_dtype("dtype", a.dtype, input_dtypes);
  require_weight_offset(a.weight_offset, convention);
  return checked_mul({a.m, a.n});
}

/// RMSNorm of x, [m, n], in six kernels.
std::vector<Kernel> rms_norm_kernels(const Tensor& x, const Arguments& a, Convention convention) {
  const std::int64_t mn = x.elements;
  const std::int64_t divisions = convention == Convention::exact ? a.m : 0;  // the mean's, by n
  const Tensor w{"w", a.n, a.dtype};
  const Tensor x2{"x2", mn, a.dtype};
  const Tensor mean{"mean", a.m, Dtype::float32};
  const Tensor mean_eps{"mean_eps", a.m, Dtype::float32};
  const Tensor rstd{"rstd", a.m, Dtype::float32};
  const Tensor scaled{"scaled", mn, a.dtype};
  const Tensor y{"y", mn, a.dtype};
  return {{"x2", {x}, {x2}, mn},
          {"mean", {x2}, {mean}, flops({{1, mn}, {1, divisions}})},
          {"mean_eps", {mean}, {mean_eps}, a.m},
          {"rstd", {mean_eps}, {rstd}, a.m},
          {"scaled", {x, rstd}, {scaled}, mn},
          {"y", {scaled, w}, {y}, flops({{1 + a.weight_offset, mn}})}};
}

/// The plan where an index a token picks the row of the tables: whoever reads a table reads the
/// indices too, and of the table the rows that they name.
Plan with_positions(Plan plan, const Arguments& a, std::int64_t tokens, Convention convention) {
  const PickedRows& picked = a.positions;
  if (picked.table_rows == 0) return plan;
  if (convention == Convention::book) {
    throw ArgumentError("positions: given; allowed: only under the exact convention");
  }
  const std::int64_t elements = checked_mul({picked.distinct, a.rope_dim}) / 2;
  for (Kernel& kernel : plan.kernels) {
    bool reads_table = false;
    for (Tensor& tensor : kernel.reads) {
      if (tensor.name != "cos" && tensor.name != "sin") continue;
      tensor.elements = elements;
      reads_table = true;
    }
    if (reads_table) kernel.reads.push_back({"positions", tokens, picked.dtype});
  }
  return plan;
}

/// What the two operators beginning with rms_norm_rope share: tensors, and the stages norm and
/// rope.
struct NormRope {
  Tensor x, w, normed, cos, sin;
  std::int64_t norm_flops = 0;
  std::int64_t rope_flops = 0;

  NormRope(const Arguments& a, Convention convention) {
    const std::int64_t mn = require_rms_norm(a, convention);
    require_rope_dim(a.rope_dim, a.n);
    const std::int64_t turned = checked_mul({a.m, a.rope_dim});
    x = {"x", mn, a.dtype};
    w = {"w", a.n, a.dtype};
    normed = {"normed", mn, a.dtype};
    cos = {"cos", turned / 2, a.dtype};
    sin = {"sin", turned / 2, a.dtype};
    norm_flops = rms_norm_flops(a, mn, convention);
    rope_flops = flops({{3, turned}});
  }

  Kernel norm() const { return {"norm", {x, w}, {normed}, norm_flops}; }
  // All n columns pass through, though rope_dim of them turn.
  Kernel rope(const Tensor& y) const { return {"rope", {normed, cos, sin}, {y}, rope_flops}; }
};

}  // namespace

Case scale_add_case(const Arguments& a, Convention) {
  require_sizes({{"n", a.n}});
  require_dtype("dtype", a.dtype, input_dtypes);
  const Tensor x{"x", a.n, a.dtype};
  const Tensor b{"b", a.n, a.dtype};
  const Tensor t{"t", a.n, a.dtype};
  const Tensor y{"y", a.n, a.dtype};
  const Plan unfused{{{"t", {x}, {t}, a.n},  //
                      {"y", {t, b}, {y}, a.n}}};
  const Plan fused{{{"fused", {x, b}, {y}, flops({{2, a.n}})}}};
  return checked("scale_add", unfused, fused);
}

Case rms_norm_case(const Arguments& a, Convention convention) {
  const std::int64_t mn = require_rms_norm(a, convention);
  const Tensor x{"x", mn, a.dtype};
  const Tensor w{"w", a.n, a.dtype};
  const Tensor y{"y", mn, a.dtype};
  const Plan fused{{{"fused", {x, w}, {y}, rms_norm_flops(a, mn, convention)}}};
  return checked("rms_norm", {rms_norm_kernels(x, a, convention)}, fused);
}

Case layer_norm_case(const Arguments& a, Convention convention) {
  require_sizes({{"m", a.m}, {"n", a.n}});
  require_dtype("dtype", a.dtype, input_dtypes);
  const std::int64_t mn = checked_mul({a.m, a.n});
  const Tensor x{"x", mn, a.dtype};
  const Tensor g{"g", a.n, a.dtype};
  const Tensor b{"b", a.n, a.dtype};
  const Tensor x2{"x2", mn, a.dtype};
  const Tensor sum_x{"sum_x", a.m, Dtype::float32};
  const Tensor sum_x2{"sum_x2", a.m, Dtype::float32};
  const Tensor mean{"mean", a.m, Dtype::float32};
  const Tensor rstd{"rstd", a.m, Dtype::float32};
  const Tensor centered{"centered", mn, a.dtype};
  const Tensor scaled{"scaled", mn, a.dtype};
  const Tensor y{"y", mn, a.dtype};
  Plan unfused{{{"x2", {x}, {x2}, mn},  //
                {"sum_x", {x}, {sum_x}, mn},
                {"sum_x2", {x2}, {sum_x2}, mn}}};
  Kernel fused{"fused", {x, g, b}, {y}, 0};
  if (convention == Convention::exact) {
    unfused.kernels.push_back({"stats", {sum_x, sum_x2}, {mean, rstd}, flops({{6, a.m}})});
    unfused.kernels.push_back({"centered", {x, mean}, {centered}, mn});
    unfused.kernels.push_back({"scaled", {centered, rstd}, {scaled}, mn});
    // The mean, then the mean of (x - mean)^2, then y, which forms x - mean once more.
    fused.flops = flops({{8, mn}, {4, a.m}});
  } else {  // no kernel of the book's makes mean and rstd, or reads them
    unfused.kernels.push_back({"centered", {x}, {centered}, mn});
    unfused.kernels.push_back({"scaled", {centered}, {scaled}, mn});
    fused.flops = flops({{6, mn}, {2, a.m}});
  }
  unfused.kernels.push_back({"y", {scaled, g, b}, {y}, flops({{2, mn}})});
  return checked("layer_norm", unfused, {{fused}});
}

Case rope_case(const Arguments& a, Convention convention) {
  require_sizes({{"tokens", a.tokens}, {"heads", a.heads}});
  require_dtype("dtype", a.dtype, input_dtypes);
  require_rope_dim(a.rope_dim);
  const std::int64_t values = checked_mul({a.tokens, a.heads, a.rope_dim});
  // Exact: cos and sin belong to the token and are half as wide as its heads. The book charges them
  // for each head, and at full width where unfused.
  const bool exact = convention == Convention::exact;
  const std::int64_t token_pairs = checked_mul({a.tokens, a.rope_dim}) / 2;
  const std::int64_t unfused_table = exact ? token_pairs : values;
  const std::int64_t fused_table = exact ? token_pairs : values / 2;
  const auto cos = [&](std::int64_t size) { return Tensor{"cos", size, a.dtype}; };
  const auto sin = [&](std::int64_t size) { return Tensor{"sin", size, a.dtype}; };
  const Tensor x{"x", values, a.dtype};
  const Tensor rot{"rot", values, a.dtype};
  const Tensor t{"t", values, a.dtype};
  const Tensor u{"u", values, a.dtype};
  const Tensor y{"y", values, a.dtype};
  const Plan unfused{{{"rot", {x}, {rot}, 0},
                      {"t", {x, cos(unfused_table)}, {t}, values},
                      {"u", {rot, sin(unfused_table)}, {u}, values},
                      {"y", {t, u}, {y}, values}}};
  const Plan fused{{{"fused", {x, cos(fused_table), sin(fused_table)}, {y}, flops({{3, values}})}}};
  return checked("rope", with_positions(unfused, a, a.tokens, convention),
                 with_positions(fused, a, a.tokens, convention));
}

Case rms_norm_rope_case(const Arguments& a, Convention convention) {
  const NormRope stage(a, convention);
  const Tensor y{"y", stage.x.elements, a.dtype};
  const Plan unfused{{stage.norm(), stage.rope(y)}};
  const Plan fused{{{"fused",
                     {stage.x, stage.w, stage.cos, stage.sin},
                     {y},
                     checked_add({stage.norm_flops, stage.rope_flops})}}};
  return checked("rms_norm_rope", with_positions(unfused, a, a.m, convention),
                 with_positions(fused, a, a.m, convention));
}

Case rms_norm_rope_quant_case(const Arguments& a, Convention convention) {
  const NormRope stage(a, convention);
  require_quantisation(a, convention);
  const std::int64_t mn = stage.x.elements;
  const std::int64_t scales = a.group_size > 0 ? mn / a.group_size : a.m;
  const bool exact = convention == Convention::exact;
  const Tensor rotated{"rotated", mn, a.dtype};
  const Tensor q{"q", mn, a.out_dtype};
  const Tensor scale{exact ? "scale" : "amax", scales, Dtype::float32};
  // A code takes an abs, a max and a division; a scale takes a floor, which the book leaves out,
  // and a division.
  const std::int64_t quant_flops = flops({{3, mn}, {exact ? 2 : 1, scales}});
  const Plan unfused{
      {stage.norm(), stage.rope(rotated), {"quant", {rotated}, {q, scale}, quant_flops}}};
  Kernel fused{"fused",
               {stage.x, stage.w, stage.cos, stage.sin},
               {q, scale},
               checked_add({stage.norm_flops, stage.rope_flops, quant_flops})};
  if (a.with_y) fused.writes.push_back({"y", mn, a.dtype});
  return checked("rms_norm_rope_quant", with_positions(unfused, a, a.m, convention),
                 with_positions({{fused}}, a, a.m, convention));
}

Case add_rms_norm_case(const Arguments& a, Convention convention) {
  const std::int64_t mn = require_rms_norm(a, convention);
  if (convention != Convention::exact) {
    throw ArgumentError("convention: got book, which has no add_rms_norm; allowed: exact");
  }
  const Tensor x{"x", mn, a.dtype};
  const Tensor r{"r", mn, a.dtype};
  const Tensor s{"s", mn, a.dtype};
  const Tensor w{"w", a.n, a.dtype};
  const Tensor y{"y", mn, a.dtype};
  Plan unfused{{{"add", {x, r}, {s}, mn}}};
  for (Kernel& kernel : rms_norm_kernels(s, a, convention)) {
    unfused.kernels.push_back(std::move(kernel));
  }
  const std::int64_t norm_flops = rms_norm_flops(a, mn, convention);
  const Plan fused{{{"fused", {x, r, w}, {s, y}, checked_add({mn, norm_flops})}}};
  return checked("add_rms_norm", unfused, fused);
}

}  // namespace opbook::ch13
