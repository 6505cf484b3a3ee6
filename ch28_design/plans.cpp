#include "ch28_design/plans.hpp"

#include <algorithm>

#include "common/checked.hpp"

namespace opbook::ch28 {
namespace {

/// The tensors of one size of the operator.
struct Parts {
  const Arguments& a;
  const RunOptions& options;
  OperatorLedger op = operator_ledger(a, Convention::exact);

  Tensor heads(const char* name) const { return {name, op.elements, options.dtype}; }
  Tensor codes() const { return {"codes", op.elements, Dtype::float8_e4m3fn}; }
  Tensor scale() const { return {"scale", op.rows, Dtype::float32}; }
  Tensor y() const { return {"y", op.elements, Dtype::float32}; }

  void add_weights(std::vector<Tensor>& reads) const {
    if (a.q_heads > 0) reads.push_back({"q_weight", a.head_dim, options.dtype});
    if (a.kv_heads > 0) reads.push_back({"k_weight", a.head_dim, options.dtype});
  }
  /// `rows` rows of both tables, and `indices` of the positions where there are any.
  void add_tables(std::vector<Tensor>& reads, std::int64_t rows, std::int64_t indices) const {
    const std::int64_t elements = checked_mul({rows, a.turned() / 2});
    reads.push_back({"cos", elements, Dtype::float32});
    reads.push_back({"sin", elements, Dtype::float32});
    if (options.positions.table_rows > 0) {
      reads.push_back({"positions", indices, options.positions.dtype});
    }
  }
  /// Of so many tokens in a row.
  std::int64_t table_rows(std::int64_t tokens) const {
    const bool picked = options.positions.table_rows > 0;
    return picked ? std::min(tokens, options.positions.distinct) : tokens;
  }
};

Kernel fused_kernel(const Parts& parts) {
  Kernel kernel{"fused", {parts.heads("x")}, {parts.codes(), parts.scale()}, parts.op.flops};
  if (parts.options.with_y) kernel.writes.push_back(parts.y());
  return kernel;
}

/// Table rows that blocks read, a row that several tokens of a block share once.
std::int64_t table_rows_by_block(const Parts& parts, const DesignLedger& design) {
  if (parts.options.positions.table_rows == 0 || design.tables_held == 1) return design.table_reads;
  const std::int64_t heads = parts.a.heads();
  std::int64_t rows = 0;
  for (std::int64_t begin = 0; begin < parts.op.rows; begin += design.rows_per_block) {
    const std::int64_t last = std::min(parts.op.rows, begin + design.rows_per_block) - 1;
    rows += parts.table_rows(last / heads - begin / heads + 1);
  }
  return rows;
}

}  // namespace

Case qk_norm_rope_quant_case(const Arguments& a, const RunOptions& options) {
  const Parts parts{a, options};
  const std::int64_t rows = parts.op.rows, elements = parts.op.elements;
  const std::int64_t tables = parts.table_rows(a.tokens);

  Kernel norm{"norm",
              {parts.heads("x")},
              {parts.heads("normed")},
              checked_add({checked_mul({4, elements}), checked_mul({3, rows})})};
  parts.add_weights(norm.reads);
  Kernel rope{"rope",
              {parts.heads("normed")},
              {parts.heads("rotated")},
              checked_mul({3, rows, a.turned()})};
  parts.add_tables(rope.reads, tables, a.tokens);
  const Kernel quant{"quant",
                     {parts.heads("rotated")},
                     {parts.codes(), parts.scale()},
                     checked_add({checked_mul({3, elements}), checked_mul({2, rows})})};

  Kernel fused = fused_kernel(parts);
  parts.add_weights(fused.reads);
  parts.add_tables(fused.reads, tables, a.tokens);
  return {"qk_norm_rope_quant", {{norm, rope, quant}}, {{fused}}};
}

Kernel kernel_by_block(const Arguments& a, const RunOptions& options, Design design) {
  const Parts parts{a, options};
  const DesignLedger ledger = design_ledger(a, design, Convention::exact);
  Kernel kernel = fused_kernel(parts);
  kernel.reads.push_back(
      {"weights", checked_mul({ledger.weight_reads, a.head_dim}), options.dtype});
  parts.add_tables(kernel.reads, table_rows_by_block(parts, ledger), ledger.table_reads);
  return kernel;
}

}  // namespace opbook::ch28
