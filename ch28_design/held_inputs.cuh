#pragma once

// Inputs and outputs as the fast kernels take them: distances in bytes and in 32 bits. An address
// is then one instruction a stride, where 64-bit strides make of it a third of all that is issued.

#include <cstddef>
#include <cstdint>

#include "ch28_design/heads.cuh"
#include "common/cuda/vector.cuh"

namespace opbook::ch28::gpu {

/// A [tokens, heads, dh] view.
struct ByteRows {
  std::byte* data = nullptr;
  std::uint32_t outer = 0, inner = 0;  ///< bytes from token to token, from head to head

  /// Where head 0 is counted as head `first`.
  template <class T>
  static ByteRows of(const Rows<T>& rows, std::uint32_t first = 0) {
    ByteRows bytes;
    bytes.outer = static_cast<std::uint32_t>(rows.outer_stride * sizeof(T));
    bytes.inner = static_cast<std::uint32_t>(rows.inner_stride * sizeof(T));
    bytes.data = reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(rows.data) -
                                              std::uintptr_t{bytes.inner} * first);
    return bytes;
  }
  /// Whether the distances have 32 bits, and the rows lie on boundaries of `boundary` bytes.
  template <class T>
  static bool fits(const Rows<T>& rows, std::int64_t boundary) {
    const auto good = [&](std::int64_t count, std::int64_t stride) {
      const std::int64_t most = 0xFFFFFFFF / static_cast<std::int64_t>(sizeof(T));
      return count <= 1 || (stride >= 0 && stride <= most &&
                            stride * static_cast<std::int64_t>(sizeof(T)) % boundary == 0);
    };
    return rows.rows() == 0 ||
           (reinterpret_cast<std::uintptr_t>(rows.data) % boundary == 0 &&
            good(rows.outer, rows.outer_stride) && good(rows.inner, rows.inner_stride));
  }

  template <class T>
  __device__ T* at(Head head) const {
    return reinterpret_cast<T*>(data + std::uint64_t{head.token} * outer +
                                std::uint64_t{head.index} * inner);
  }
};

/// Row r of a table, and whether it is there at all: if not, it stands for row 0.
struct TableRow {
  std::uint32_t row;
  bool there;
};

template <class T>
struct HeldInputs {
  ByteRows q, k;
  const T *q_weight, *k_weight;
  const std::byte *cos, *sin;
  std::uint32_t cos_stride, sin_stride, table_rows;
  const std::int32_t* positions32;
  const std::int64_t* positions64;
  FastDivisor per_token;
  std::uint32_t heads, q_heads, rows;
  int half;  ///< pairs of columns that turn
  float eps;

  explicit HeldInputs(const DeviceHeads<T>& in)
      : q(ByteRows::of(in.q)),
        k(ByteRows::of(in.k, in.q_heads)),
        q_weight(in.q_weight),
        k_weight(in.k_weight),
        cos(reinterpret_cast<const std::byte*>(in.tables.cos)),
        sin(reinterpret_cast<const std::byte*>(in.tables.sin)),
        cos_stride(static_cast<std::uint32_t>(in.tables.cos_stride * sizeof(float))),
        sin_stride(static_cast<std::uint32_t>(in.tables.sin_stride * sizeof(float))),
        table_rows(static_cast<std::uint32_t>(in.tables.rows)),
        positions32(in.tables.positions32),
        positions64(in.tables.positions64),
        per_token(in.per_token),
        heads(in.heads),
        q_heads(in.q_heads),
        rows(in.rows),
        half(in.half()),
        eps(in.eps) {}

  /// Whether all of it can be taken so, and a lane's 8 pairs, or those of a piece, turn all or
  /// none.
  static bool fits(const QkHeads<T>& in) {
    const auto part = [](const Rows<const T>& x, Row<const T> weight) {
      return x.inner == 0 || (ByteRows::fits(x, 16) && on_vectors(weight));
    };
    const auto table = [](const Rows<const float>& table) {
      return table.rows() > 0 && table.rows() <= 0xFFFFFFFF && ByteRows::fits(table, 16);
    };
    const RopeTables<float>& rope = in.rope;
    return part(in.q, in.q_weight) && part(in.k, in.k_weight) && rope.rope_dim() % 16 == 0 &&
           (rope.rope_dim() == 0 || (table(rope.cos) && table(rope.sin)));
  }

  __device__ Head head(std::uint32_t row) const {
    const std::uint32_t token = per_token.quotient(row);
    return {token, row - token * heads};
  }
  /// Selected part by part: a selected view would go through local memory.
  __device__ const T* x(Head head) const {
    const bool of_q = head.index < q_heads;
    const ByteRows rows{of_q ? q.data : k.data, of_q ? q.outer : k.outer, of_q ? q.inner : k.inner};
    return rows.at<const T>(head);
  }
  __device__ const T* weight(Head head) const { return head.index < q_heads ? q_weight : k_weight; }

  __device__ TableRow table_row(std::uint32_t token) const {
    std::uint32_t row = token;
    if (positions32 != nullptr) {
      row = static_cast<std::uint32_t>(positions32[token]);  // below 0: beyond any table
    } else if (positions64 != nullptr) {
      const auto position = static_cast<std::uint64_t>(positions64[token]);
      row = position < table_rows ? static_cast<std::uint32_t>(position) : 0xFFFFFFFFu;
    }
    const bool there = row < table_rows;
    return {there ? row : 0, there};
  }
};

struct HeldOutputs {
  ByteRows codes, y;
  float* scale;
  bool with_y;

  explicit HeldOutputs(const DeviceOutputs& out)
      : codes(ByteRows::of(out.codes)),
        y(ByteRows::of(out.y)),
        scale(out.scale),
        with_y(out.y.data != nullptr) {}

  static bool fits(const DeviceOutputs& out) {
    return ByteRows::fits(out.codes, 8) && (out.y.data == nullptr || ByteRows::fits(out.y, 16));
  }
};

}  // namespace opbook::ch28::gpu
