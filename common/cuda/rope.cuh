#pragma once

// RoPE on a device: which angles turn a row, and the turning of two vectors by them.

#include <cuda_runtime.h>

#include <string>
#include <type_traits>

#include "common/cuda/vector.cuh"
#include "common/rotation.hpp"

namespace opbook::gpu {

/// Tables and positions as a kernel takes them. Throws ArgumentError for tables whose rows do not
/// lie at one distance from each other.
template <class T>
struct DeviceTables {
  const T *cos, *sin;
  std::int64_t rows, half;  ///< rows of each table, and their columns
  std::int64_t cos_stride, sin_stride;
  const std::int32_t* positions32 = nullptr;
  const std::int64_t* positions64 = nullptr;

  explicit DeviceTables(const RopeTables<T>& tables)
      : cos(tables.cos.data),
        sin(tables.sin.data),
        rows(tables.cos.rows()),
        half(tables.cos.cols),
        cos_stride(one_stride("cos", tables.cos)),
        sin_stride(one_stride("sin", tables.sin)) {
    tables.positions.visit([&](auto picked) {
      if constexpr (std::is_same_v<decltype(picked), Row<const std::int32_t>>) {
        positions32 = picked.data;
      } else {
        positions64 = picked.data;
      }
    });
  }

  __device__ std::int64_t table_row(std::int64_t token) const {
    if (positions32 != nullptr) return positions32[token];
    if (positions64 != nullptr) return positions64[token];
    return token;
  }

 private:
  static std::int64_t one_stride(const char* name, const Rows<const T>& table) {
    if (table.inner == 1 || table.outer * table.inner == 0) return table.outer_stride;
    if (table.outer == 1 || table.outer_stride == table.inner * table.inner_stride) {
      return table.inner_stride;
    }
    throw ArgumentError(std::string(name) + ": got strides " + std::to_string(table.outer_stride) +
                        " and " + std::to_string(table.inner_stride) +
                        "; allowed on a GPU: rows at one distance from each other");
  }
};

/// The angles of one token: never read where the tables end; NaN there.
template <class T>
struct Angles {
  const T *cos, *sin;
  bool there;

  __device__ Angles(const DeviceTables<T>& tables, std::int64_t token) {
    const std::int64_t row = tables.table_row(token);
    there = row >= 0 && row < tables.rows;
    cos = tables.cos + row * tables.cos_stride;
    sin = tables.sin + row * tables.sin_stride;
  }

  /// Those of `width` neighbouring columns.
  template <int width>
  __device__ void load(std::int64_t column, float (&c)[width], float (&s)[width]) const {
    if (there) {
      load_floats(cos + column, c);
      load_floats(sin + column, s);
    } else {
#pragma unroll
      for (int j = 0; j < width; ++j) c[j] = s[j] = __uint_as_float(0x7FFFFFFFu);
    }
  }

  /// Vector i of both.
  __device__ void load_vectors(std::int64_t i, Vector<T>& c, Vector<T>& s) const {
    constexpr std::uint32_t nan = sizeof(T) == 4 ? 0x7FFFFFFFu : 0x7FFF7FFFu;
    c = s = Vector<T>{{nan, nan, nan, nan}};
    if (there) {
      c = load_vector(cos, static_cast<int>(i));
      s = load_vector(sin, static_cast<int>(i));
    }
  }
};

/// The tables as the kernels take them that hold their rows: both with one stride, whatever can be
/// computed beforehand computed.
template <class T>
struct AngleRows {
  static constexpr unsigned none = 0xFFFFFFFFu;

  const T *cos, *sin;
  unsigned rows, stride;  ///< the stride in vectors
  const void* positions;  ///< int64 if `wide`, else int32; nullptr: a token's row is its number
  bool wide;

  explicit AngleRows(const DeviceTables<T>& tables)
      : cos(tables.cos),
        sin(tables.sin),
        rows(static_cast<unsigned>(tables.rows)),
        stride(static_cast<unsigned>(tables.cos_stride / vector_width<T>)),
        positions(tables.positions64 != nullptr ? static_cast<const void*>(tables.positions64)
                                                : tables.positions32),
        wide(tables.positions64 != nullptr) {}

  static bool fit(const DeviceTables<T>& tables) {
    return tables.cos_stride == tables.sin_stride && tables.rows < none && tables.cos_stride >= 0 &&
           tables.cos_stride / vector_width<T> < none;
  }

  /// The row of a token's angles; none where its position lies beyond the tables.
  __device__ unsigned row_of(unsigned token) const {
    if (positions == nullptr) return token;
    const std::int64_t row = wide ? static_cast<const std::int64_t*>(positions)[token]
                                  : static_cast<const std::int32_t*>(positions)[token];
    return row >= 0 && row < rows ? static_cast<unsigned>(row) : none;
  }

  /// Vector i of both tables, if `wanted`, asked for here; NaN where there is no row.
  __device__ void load(unsigned row, bool wanted, int i, Vector<T>& c, Vector<T>& s) const {
    // NaN beforehand: chosen afterwards, it would have to wait for what was loaded.
    constexpr std::uint32_t nan = sizeof(T) == 4 ? 0x7FFFFFFFu : 0x7FFF7FFFu;
    const std::int64_t offset = start_of(row);
    c = load_vector_if(wanted && row != none, cos + offset, i, Vector<T>{nan, nan, nan, nan});
    s = load_vector_if(wanted && row != none, sin + offset, i, Vector<T>{nan, nan, nan, nan});
  }

  /// Brings vector i, and what shares its 128 bytes, into the L2.
  __device__ void bring_nearer(unsigned row, int i) const {
    if (row == none) return;
    const std::int64_t offset = start_of(row) + i * vector_width<T>;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(cos + offset));
    asm volatile("prefetch.global.L2 [%0];" ::"l"(sin + offset));
  }

 private:
  __device__ std::int64_t start_of(unsigned row) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(row) * stride) * vector_width<T>;
  }
};

/// lo' = lo c - hi s and hi' = hi c + lo s, in place.
template <int width>
__device__ void turn(float (&low)[width], float (&high)[width], const float (&c)[width],
                     const float (&s)[width]) {
#pragma unroll
  for (int j = 0; j < width; ++j) {
    const float turned = fmaf(low[j], c[j], -(high[j] * s[j]));
    high[j] = fmaf(high[j], c[j], low[j] * s[j]);
    low[j] = turned;
  }
}

/// The same of packed vectors, a word of each at a time; results rounded to T.
template <class T>
__device__ void turn(Vector<T>& low, Vector<T>& high, const Vector<T>& cos, const Vector<T>& sin) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 l = unpack_word<T>(low.words[j]), h = unpack_word<T>(high.words[j]);
    const float2 c = unpack_word<T>(cos.words[j]), s = unpack_word<T>(sin.words[j]);
    low.words[j] = pack_word<T>(fmaf(l.x, c.x, -(h.x * s.x)), fmaf(l.y, c.y, -(h.y * s.y)));
    high.words[j] = pack_word<T>(fmaf(h.x, c.x, l.x * s.x), fmaf(h.y, c.y, l.y * s.y));
  }
}

/// Whether vectors of the last rd of `cols` columns pair with vectors.
template <class T>
bool pairs_on_vectors(const RopeTables<T>& tables, std::int64_t cols) {
  return (cols - tables.rope_dim()) % vector_width<T> == 0 && on_vectors(tables.cos) &&
         on_vectors(tables.sin);
}

}  // namespace opbook::gpu
