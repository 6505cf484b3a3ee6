#pragma once

// QK-Norm, RoPE and FP8 quantisation of the q and k heads of every token, the book's section 28:
//   rstd = 1 / sqrt(mean(x^2) + eps),  v = x * rstd * w,  w of the q heads or of the k heads;
//   lo' = lo c - hi s,  hi' = hi c + lo s  in the last rd columns, by the token's angles;
//   amax = max(max |y|, 1e-4),  scale = amax / 448,  code = e4m3(y / scale), a scale a head.
// All in float32 from the input to the code: nothing is rounded in between. The heads of a token,
// q before k, and the tokens one after the other make the flat grid of rows that the designs cut:
// row = token * (q_heads + kv_heads) + head.

#include <cstdint>
#include <string>
#include <utility>

#include "common/checks.hpp"
#include "common/cuda/device.hpp"
#include "common/dtype.hpp"
#include "common/error.hpp"
#include "common/rotation.hpp"
#include "common/rows.hpp"

namespace opbook::ch28 {

/// How the rows are cut into blocks: A one row a block; B `rows_per_block` consecutive rows; C all
/// rows of one token; D ours, as the device likes it best.
enum class Design { A, B, C, D };

struct QkOptions {
  float eps = 1e-6f;  ///< added to mean(x^2); 0 turns a head of zeros into NaN, as the formula does
  Design design = Design::D;
  std::int64_t rows_per_block = 8;  ///< of design B: 2 to 64
};

/// What goes in. T is the dtype of the heads and their weights; the tables are float32.
template <class T>
struct QkHeads {
  Rows<const T> q;         ///< [tokens, q_heads, dh]: outer rows are tokens, inner ones heads
  Rows<const T> k;         ///< [tokens, kv_heads, dh]; either may have no heads (inner = 0)
  Row<const T> q_weight;   ///< [dh]; unused, and of any size, where there are no q heads
  Row<const T> k_weight;   ///< [dh]; the same
  RopeTables<float> rope;  ///< [tokens, rd / 2], or [positions, rd / 2] and an index a token

  std::int64_t heads() const { return q.inner + k.inner; }
  std::int64_t tokens() const { return q.inner > 0 ? q.outer : k.outer; }
  std::int64_t dh() const { return q.inner > 0 ? q.cols : k.cols; }
  std::int64_t rows() const { return tokens() * heads(); }
};

/// What comes out.
struct QuantisedHeads {
  Rows<float8_e4m3fn> codes;  ///< [tokens, heads, dh], or [tokens * heads, dh]
  Row<float> scale;           ///< [tokens * heads]
  Rows<float> y = {};         ///< as codes: what was quantised; left empty where it is not wanted
};

/// What the unfused plan stores between its three kernels, rounded to T; each as codes.
template <class T>
struct QkIntermediates {
  Rows<T> normed;
  Rows<T> rotated;
};

/// Heads `first` up to, not including, first + count of a packed [tokens, heads, dh] tensor.
template <class T>
Rows<T> heads_of(T* packed, std::int64_t tokens, std::int64_t heads, std::int64_t dh,
                 std::int64_t first, std::int64_t count) {
  return {packed + first * dh, tokens, count, dh, heads * dh, dh};
}

/// [tokens * heads, dh] as [tokens, heads, dh], which it may be already.
template <class T>
Rows<T> by_token(Rows<T> rows, std::int64_t tokens, std::int64_t heads) {
  if (rows.inner == heads) return rows;
  return {rows.data, tokens, heads, rows.cols, heads * rows.outer_stride, rows.outer_stride};
}

/// What the operator asks of its inputs, wherever it runs. Throws ArgumentError.
template <class T>
void check_qk_heads(const QkHeads<T>& in, const QkOptions& options) {
  const auto require = [](bool good, const char* argument, const std::string& got,
                          const std::string& allowed) {
    if (!good)
      throw ArgumentError(std::string(argument) + ": got " + got + "; allowed: " + allowed);
  };
  using std::to_string;
  require(in.q.inner >= 0 && in.k.inner >= 0 && in.heads() > 0, "heads",
          to_string(in.q.inner) + " of q and " + to_string(in.k.inner) + " of k",
          "1 and more together, none below 0");
  const std::int64_t dh = in.dh(), tokens = in.tokens();
  require(dh % 2 == 0, in.q.inner > 0 ? "q" : "k", to_string(dh) + " columns", "an even number");
  const auto require_part = [&](const char* name, Rows<const T> x, const char* weight_name,
                                Row<const T> weight) {
    if (x.inner == 0) return;
    require(x.outer == tokens && x.cols == dh, name,
            '[' + to_string(x.outer) + ", " + to_string(x.inner) + ", " + to_string(x.cols) + ']',
            '[' + to_string(tokens) + ", heads, " + to_string(dh) + "], as q");
    require_size(weight_name, weight, dh);
  };
  require_part("q", in.q, "q_weight", in.q_weight);
  require_part("k", in.k, "k_weight", in.k_weight);
  require(in.rope.rope_dim() <= dh, "cos", to_string(in.rope.cos.cols) + " columns",
          "at most " + to_string(dh / 2) + ", half of a head's");
  require_rope_tables(in.rope, tokens);
  require_eps(options.eps);
  require(
      options.design != Design::B || (options.rows_per_block >= 2 && options.rows_per_block <= 64),
      "rows_per_block", to_string(options.rows_per_block), "2 to 64");
}

/// And of an output: of the rows' shape, rows apart, memory of its own. Throws ArgumentError.
template <class T, class U>
void check_qk_output(const char* name, Rows<U> out, const QkHeads<T>& in) {
  require_shape(name, out, in.rows(), in.dh());
  if (out.inner != 1 && out.inner != in.heads()) {
    throw ArgumentError(std::string(name) + ": got " + std::to_string(out.inner) +
                        " inner rows; allowed: 1, or the heads, " + std::to_string(in.heads()));
  }
  require_distinct_rows(name, out);
  require_no_overlap(name, out, "q", in.q);
  require_no_overlap(name, out, "k", in.k);
  require_no_overlap(name, out, "q_weight", one_row(in.q_weight));
  require_no_overlap(name, out, "k_weight", one_row(in.k_weight));
  require_apart_from_tables(name, out, in.rope);
}

/// What qk_norm_rope_quant asks of its arguments, wherever it runs. Throws ArgumentError.
template <class T>
void check_qk_norm_rope_quant(const QkHeads<T>& in, const QuantisedHeads& out,
                              const QkOptions& options) {
  check_qk_heads(in, options);
  check_qk_output("codes", out.codes, in);
  require_size("scale", out.scale, in.rows());
  const Rows<float> scale = one_row(out.scale);
  require_no_overlap("scale", scale, "q", in.q);
  require_no_overlap("scale", scale, "k", in.k);
  require_no_overlap("scale", scale, "q_weight", one_row(in.q_weight));
  require_no_overlap("scale", scale, "k_weight", one_row(in.k_weight));
  require_apart_from_tables("scale", scale, in.rope);
  require_no_overlap("scale", scale, "codes", out.codes);
  if (out.y.data == nullptr) return;
  check_qk_output("y", out.y, in);
  require_no_overlap("y", out.y, "codes", out.codes);
  require_no_overlap("y", out.y, "scale", scale);
}

/// And its unfused plan, which makes no y in float32. Throws ArgumentError.
template <class T>
void check_qk_unfused(const QkHeads<T>& in, const QuantisedHeads& out,
                      const QkIntermediates<T>& intermediates, const QkOptions& options) {
  check_qk_norm_rope_quant(in, out, options);
  const Rows<T> normed = intermediates.normed, rotated = intermediates.rotated;
  check_qk_output("normed", normed, in);
  check_qk_output("rotated", rotated, in);
  require_no_overlap("rotated", rotated, "normed", normed);
  for (const auto& [name, rows] : {std::pair{"normed", normed}, {"rotated", rotated}}) {
    require_no_overlap(name, rows, "codes", out.codes);
    require_no_overlap(name, rows, "scale", one_row(out.scale));
  }
  if (out.y.data != nullptr) {
    throw ArgumentError(
        "y: got a tensor; allowed: none, the unfused plan rounds it to the input's "
        "dtype and stores it as `rotated`");
  }
}

namespace cpu {

/// One kernel a block of the design. q, k: any strides between heads and between tokens, any base;
/// slices of one qkv tensor too. A NaN in a head makes its scale NaN, and with it its codes 0x7F; a
/// head of zeros gets the scale 1e-4 / 448. Every design gives the same bits. Backend is Fast, or
/// Metered to count.
/// Throws ArgumentError, before anything is written, for no heads at all, an odd dh, shapes that
/// disagree, rd above dh, rows_per_block outside 2 to 64 in design B, eps below 0 or not finite,
/// outputs that overlap anything, and a position that the tables do not have. No tokens and dh = 0
/// do nothing.
template <class Backend, class T>
void qk_norm_rope_quant(Backend& backend, const QkHeads<T>& in, const QuantisedHeads& out,
                        const QkOptions& options = {});

/// The same as three kernels, "norm", "rope" and "quant", the first two storing what the next one
/// reads, in the dtype of the input. The design has no effect. Errors as above, and for a y.
template <class Backend, class T>
void qk_norm_rope_quant_unfused(Backend& backend, const QkHeads<T>& in, const QuantisedHeads& out,
                                const QkIntermediates<T>& intermediates,
                                const QkOptions& options = {});

}  // namespace cpu

namespace gpu {

using opbook::gpu::Stream;

/// The same on a CUDA device: all memory is the device's, the work is queued on `stream`. Nothing
/// is allocated. A head's bits depend on nothing but the head: not on the design, the batch, the
/// strides or the base. A position that the tables do not have is not read: it makes NaN of the
/// columns that it should turn, and so of scale and codes. Throws as above but for positions, for
/// more than 2^31 - 1 rows, and CudaError where the launch fails.
template <class T>
void qk_norm_rope_quant(Stream stream, const QkHeads<T>& in, const QuantisedHeads& out,
                        const QkOptions& options = {});
template <class T>
void qk_norm_rope_quant_unfused(Stream stream, const QkHeads<T>& in, const QuantisedHeads& out,
                                const QkIntermediates<T>& intermediates,
                                const QkOptions& options = {});

/// For those who would rather have an error than NaN: waits for the stream, fetches the positions
/// and throws ArgumentError for one that the tables do not have.
void require_positions(Stream stream, const RopeTables<float>& rope);

}  // namespace gpu
}  // namespace opbook::ch28
