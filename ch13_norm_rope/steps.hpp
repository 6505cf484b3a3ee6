#pragma once

// rms_norm and rms_norm_rope_quant in steps, from the kernel that one would write first to the one
// that ships: each step adds one idea, so that its worth can be measured (`bench --plan steps`).
// To show little but its idea, a step takes less than the operator does: rows without gaps on
// 16-byte boundaries, of whole vectors of 16 bytes and up to 8192 elements, normalised plainly
// (rounded once, weights as they are), one scale a row, and pairs that one warp holds.

#include <cstdint>
#include <string>
#include <type_traits>

#include "ch13_norm_rope/rms_norm.hpp"
#include "ch13_norm_rope/rms_norm_rope_quant.hpp"
#include "common/cuda/device.hpp"
#include "common/rows.hpp"

namespace opbook::ch13 {

enum class RmsNormStep { naive, block, vectorised, held };
enum class QuantStep { naive, vectorised, held, exact_quotient };

/// A step, what `--plan` calls it, and what it adds to the one before.
template <class Kind>
struct NamedStep {
  Kind kind;
  const char *name, *adds;
};

inline constexpr NamedStep<RmsNormStep> rms_norm_steps[] = {
    {RmsNormStep::naive, "naive", "a thread a row"},
    {RmsNormStep::block, "block", "a block a row: neighbouring threads, neighbouring elements"},
    {RmsNormStep::vectorised, "vectorised", "16 bytes a load"},
    {RmsNormStep::held, "held", "the row kept in registers: read once"},
};
inline constexpr const char* rms_norm_fused_adds =
    "a later row brought into the L2, weights asked for late, squares by tensor cores";

inline constexpr NamedStep<QuantStep> quant_steps[] = {
    {QuantStep::naive, "naive", "a thread a row"},
    {QuantStep::vectorised, "vectorised", "a block a row, 16 bytes a load"},
    {QuantStep::held, "held", "the row kept in registers: read and normalised once"},
    {QuantStep::exact_quotient, "exact_quotient", "the division's codes without a division"},
};
inline constexpr const char* quant_fused_adds =
    "maxima by pairs, angles asked for early, weights late, squares by tensor cores";

inline constexpr std::int64_t most_step_columns = 8192;

/// `rows` must lie one after the other, each on a boundary of `bytes`. Throws ArgumentError.
template <class T>
void require_step_rows(const char* name, Rows<T> rows, std::int64_t bytes) {
  const bool outer = rows.outer <= 1 || rows.outer_stride == rows.inner * rows.cols;
  const bool inner = rows.inner <= 1 || rows.inner_stride == rows.cols;
  if (!outer || !inner) {
    throw ArgumentError(std::string(name) + ": got strides " + std::to_string(rows.outer_stride) +
                        " and " + std::to_string(rows.inner_stride) + " for rows of " +
                        std::to_string(rows.cols) + "; allowed in a step: no gaps");
  }
  const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(rows.data) % bytes);
  if (past != 0) {
    throw ArgumentError(std::string(name) + ": got a base " + std::to_string(past) +
                        " bytes beyond a boundary; allowed in a step: multiples of " +
                        std::to_string(bytes) + " bytes");
  }
}

/// What every step asks of the row it normalises. Throws ArgumentError.
template <class T>
void require_step_norm(Rows<const T> x, Row<const T> w, const RmsNormOptions& options) {
  constexpr std::int64_t width = 16 / sizeof(T);
  if (x.cols % width != 0 || x.cols > most_step_columns) {
    throw ArgumentError("n: got " + std::to_string(x.cols) + "; allowed in a step: multiples of " +
                        std::to_string(width) + " up to " + std::to_string(most_step_columns));
  }
  if (options.weight_offset != 0) throw ArgumentError("weight_offset: got 1; allowed in a step: 0");
  if (options.rounding != Rounding::once) {
    throw ArgumentError("rounding: got before_weight; allowed in a step: once");
  }
  require_step_rows("x", x, 16);
  require_step_rows("w", one_row(w), 16);
}

/// What the steps of rms_norm ask of their arguments. Throws ArgumentError.
template <class T>
void check_rms_norm_step(Rows<const T> x, Row<const T> w, Rows<T> y,
                         const RmsNormOptions& options) {
  check_rms_norm<T>(x, w, y, options);
  require_step_norm(x, w, options);
  require_step_rows("y", y, 16);
}

/// What the steps of rms_norm_rope_quant ask of their arguments. Throws ArgumentError.
template <class T>
void check_quant_step(Rows<const T> x, Row<const T> w, const RopeTables<T>& tables,
                      const Quantised<T>& result, const RmsNormRopeQuantOptions& options) {
  constexpr std::int64_t width = 16 / sizeof(T);
  check_norm_rope_quant<T>(x, w, tables, result, options);
  require_step_norm(x, w, options.norm);
  if (options.group_size != 0) {
    throw ArgumentError("group_size: got " + std::to_string(options.group_size) +
                        "; allowed in a step: 0, one scale a row");
  }
  const std::int64_t turned = tables.rope_dim();
  const bool power_of_two = turned > 0 && (turned & (turned - 1)) == 0;
  if (!power_of_two || turned < 2 * width || turned > 32 * width || x.cols % turned != 0) {
    throw ArgumentError("rope_dim: got " + std::to_string(turned) +
                        "; allowed in a step: powers of two from " + std::to_string(2 * width) +
                        " to " + std::to_string(32 * width) +
                        " that divide n = " + std::to_string(x.cols));
  }
  require_step_rows("cos", tables.cos, 16);
  require_step_rows("sin", tables.sin, 16);
  require_step_rows("q", result.q, width);
  require_step_rows("scale", result.scale, 4);
  if (result.y.data != nullptr) require_step_rows("y", result.y, 16);
}

namespace gpu {

/// One step of rms_norm on a CUDA device, queued on `stream`; x, y: [m, n], w: [n]. Throws
/// ArgumentError as rms_norm does and for whatever check_rms_norm_step refuses, CudaError where the
/// launch fails.
template <class T>
void rms_norm_step(Stream stream, RmsNormStep step, Rows<const std::type_identity_t<T>> x,
                   Row<const std::type_identity_t<T>> w, Rows<T> y,
                   const RmsNormOptions& options = {});

/// The same of rms_norm_rope_quant; y is written where it is wanted.
template <class T>
void rms_norm_rope_quant_step(Stream stream, QuantStep step, Rows<const std::type_identity_t<T>> x,
                              Row<const std::type_identity_t<T>> w,
                              const RopeTables<std::type_identity_t<T>>& tables,
                              const Quantised<T>& result,
                              const RmsNormRopeQuantOptions& options = {});

}  // namespace gpu
}  // namespace opbook::ch13
