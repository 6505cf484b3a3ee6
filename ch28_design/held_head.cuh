#pragma once

// A head in registers: neighbouring lanes of a warp hold it, `pairs` pairs of columns each, and
// read and write them as whole vectors.

#include <bit>
#include <cstdint>

#include "ch28_design/heads.cuh"
#include "ch28_design/pairs.cuh"

namespace opbook::ch28::gpu {

/// How the lanes of a warp share heads. A team of lanes has as many as a power of two; of 96 and
/// 192 columns a quarter of them have nothing to do.
template <int dh, int pairs>
struct Team {
  static constexpr int busy = dh / 2 / pairs;
  static constexpr int lanes = static_cast<int>(std::bit_ceil(static_cast<unsigned>(busy)));
  static constexpr int per_warp = 32 / lanes;
  static_assert(busy * pairs * 2 == dh && lanes <= 32);
};

/// `count` 16-bit elements, packed, read and written at once.
template <class T, int count>
struct alignas(count * 2) Packed {
  std::uint32_t words[count / 2];

  __device__ void unpack(float (&values)[count]) const {
#pragma unroll
    for (int j = 0; j < count / 2; ++j) {
      values[2 * j] = as_float(T{static_cast<std::uint16_t>(words[j])});
      values[2 * j + 1] = as_float(T{static_cast<std::uint16_t>(words[j] >> 16)});
    }
  }
  __device__ static Packed of(const float (&values)[count]) {
    Packed packed;
#pragma unroll
    for (int j = 0; j < count / 2; ++j) {
      if constexpr (std::is_same_v<T, bfloat16>) {
        packed.words[j] = pack_bfloat16(values[2 * j], values[2 * j + 1]);
      } else {
        const __half2 pair = __floats2half2_rn(values[2 * j], values[2 * j + 1]);
        packed.words[j] = reinterpret_cast<const std::uint32_t&>(pair);
      }
    }
    return packed;
  }
};

/// `count` float32, as vectors of 16 bytes where there are as many.
template <int count>
__device__ void load_angles(const float* from, float (&values)[count]) {
  if constexpr (count % 4 == 0) {
#pragma unroll
    for (int j = 0; j < count / 4; ++j) {
      const float4 four = __ldg(reinterpret_cast<const float4*>(from) + j);
      values[4 * j] = four.x;
      values[4 * j + 1] = four.y;
      values[4 * j + 2] = four.z;
      values[4 * j + 3] = four.w;
    }
  } else {
    const float2 two = __ldg(reinterpret_cast<const float2*>(from));
    values[0] = two.x;
    values[1] = two.y;
  }
}
template <int count>
__device__ void store_y(float* to, const float (&values)[count]) {
  if constexpr (count % 4 == 0) {
#pragma unroll
    for (int j = 0; j < count / 4; ++j) {
      reinterpret_cast<float4*>(to)[j] =
          make_float4(values[4 * j], values[4 * j + 1], values[4 * j + 2], values[4 * j + 3]);
    }
  } else {
    *reinterpret_cast<float2*>(to) = make_float2(values[0], values[1]);
  }
}

template <int count>
__device__ void store_codes(float8_e4m3fn* to, const float (&values)[count],
                            const CodeQuotient& quotient) {
  std::uint32_t codes[count / 2];
#pragma unroll
  for (int j = 0; j < count / 2; ++j) {
    codes[j] = pack_e4m3(quotient(values[2 * j]), quotient(values[2 * j + 1]));
  }
  if constexpr (count == 8) {
    *reinterpret_cast<uint2*>(to) =
        make_uint2(codes[0] | codes[1] << 16, codes[2] | codes[3] << 16);
  } else if constexpr (count == 4) {
    *reinterpret_cast<std::uint32_t*>(to) = codes[0] | codes[1] << 16;
  } else {
    *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(codes[0]);
  }
}

/// A lane of a team, and the columns that are its own. A lane without any stands in for the first
/// one, but adds and stores nothing.
template <int dh, int pairs>
struct Lane {
  using Team = gpu::Team<dh, pairs>;
  int first_pair;
  bool busy;
  PairColumns columns;

  __device__ explicit Lane(int half)
      : first_pair(within_team() * pairs),
        busy(Team::busy == Team::lanes || within_team() < Team::busy),
        columns(busy ? first_pair : 0, dh, half) {
    if (!busy) first_pair = 0;
  }
  __device__ static int within_team() { return static_cast<int>(threadIdx.x) % Team::lanes; }
  __device__ static unsigned team() { return threadIdx.x / Team::lanes; }
};

/// A lane's share of a head or of a weight, as it was read: packed, while others are waited for.
template <class T, int dh, int pairs>
struct PackedPairs {
  Packed<T, pairs> low, high;

  __device__ static PackedPairs of_head(const T* head, const Lane<dh, pairs>& lane) {
    return {*reinterpret_cast<const Packed<T, pairs>*>(head + lane.columns.low),
            *reinterpret_cast<const Packed<T, pairs>*>(head + lane.columns.high)};
  }
  /// The same of what no kernel writes while this one runs.
  __device__ static PackedPairs of_weight(const T* weight, const Lane<dh, pairs>& lane) {
    return {constant(weight + lane.columns.low), constant(weight + lane.columns.high)};
  }
  __device__ Pairs<pairs> values() const {
    Pairs<pairs> v;
    low.unpack(v.low);
    high.unpack(v.high);
    return v;
  }

 private:
  __device__ static Packed<T, pairs> constant(const T* from) {
    if constexpr (pairs == 8) {
      const uint4 words = __ldg(reinterpret_cast<const uint4*>(from));
      return {{words.x, words.y, words.z, words.w}};
    } else if constexpr (pairs == 4) {
      const uint2 words = __ldg(reinterpret_cast<const uint2*>(from));
      return {{words.x, words.y}};
    } else {
      return {{__ldg(reinterpret_cast<const std::uint32_t*>(from))}};
    }
  }
};

/// The angles of a lane's pairs; not read where they do not turn.
template <int dh, int pairs>
struct HeldAngles {
  float cos[pairs], sin[pairs];

  __device__ HeldAngles(const DeviceTables<float>& tables, const TableRow& at,
                        const Lane<dh, pairs>& lane) {
    if (!lane.columns.turns) return;
    load_angles(tables.cos + at.row * tables.cos_stride + lane.first_pair, cos);
    load_angles(tables.sin + at.row * tables.sin_stride + lane.first_pair, sin);
  }
};

/// rstd of a whole head, in each of its lanes.
template <int dh, int pairs>
__device__ float held_rstd(const Pairs<pairs>& x, const Lane<dh, pairs>& lane, float eps) {
  const float sum = tree_sum<Team<dh, pairs>::lanes>(lane.busy ? x.squares() : 0.0f);
  return rstd_of(sum, static_cast<float>(dh), eps);
}

/// Scale and codes of a head.
template <int dh, int pairs>
__device__ void held_quantise(const Pairs<pairs>& y, const Lane<dh, pairs>& lane,
                              const DeviceOutputs& out, std::uint32_t row, Head head, bool stored) {
  const float scale = scale_of(lanes_max(__float_as_uint(y.largest()), Team<dh, pairs>::lanes));
  if (!stored || !lane.busy) return;
  if (lane.within_team() == 0) out.scale[row] = scale;
  float8_e4m3fn* const codes = head_of(out.codes, head);
  const CodeQuotient quotient(scale);
  store_codes(codes + lane.columns.low, y.low, quotient);
  store_codes(codes + lane.columns.high, y.high, quotient);
}

/// One row of the flat grid: asked for when it is made, worked off by finish().
template <class T, int dh, int pairs>
class HeldHead {
 public:
  HeldHead() = default;
  __device__ HeldHead(const DeviceHeads<T>& in, const Lane<dh, pairs>& lane, std::uint32_t row)
      : row_(row),
        head_(in.head(row)),
        at_(in.tables, head_.token),
        x_(PackedPairs<T, dh, pairs>::of_head(in.x(head_), lane)) {}

  /// All of the operator. Weight and angles, which do not depend on the reduction, are asked for
  /// before it.
  __device__ void finish(const DeviceHeads<T>& in, const Lane<dh, pairs>& lane,
                         const DeviceOutputs& out, bool stored) const {
    const auto weight = PackedPairs<T, dh, pairs>::of_weight(in.weight(head_), lane);
    const HeldAngles<dh, pairs> angles(in.tables, at_, lane);
    Pairs<pairs> v = x_.values();
    float rstd = held_rstd(v, lane, in.eps);
    // All of a lane's pairs turn or none: what should turn by angles that are not there is NaN.
    if (lane.columns.turns && !at_.there) rstd = __uint_as_float(0x7FFFFFFFu);
    v.normalise(weight.values(), rstd);
    if (lane.columns.turns) turn(v.low, v.high, angles.cos, angles.sin);
    if (out.y.data != nullptr && stored && lane.busy) {
      float* const y = head_of(out.y, head_);
      store_y(y + lane.columns.low, v.low);
      store_y(y + lane.columns.high, v.high);
    }
    held_quantise(v, lane, out, row_, head_, stored);
  }

 private:
  std::uint32_t row_;
  Head head_;
  TableRow at_;
  PackedPairs<T, dh, pairs> x_;
};

/// Whether lanes can read and write their shares whole: all on 16-byte boundaries, the codes on
/// those of 8, and each lane's pairs turning all or none.
template <class T>
bool inputs_on_vectors(const QkHeads<T>& in) {
  const auto part = [](Rows<const T> x, Row<const T> weight) {
    return x.inner == 0 || (on_vectors(x) && on_vectors(weight));
  };
  const RopeTables<float>& rope = in.rope;
  const bool tables = rope.rope_dim() == 0 || (rope.rope_dim() % 16 == 0 && rope.cos.rows() > 0 &&
                                               on_vectors(rope.cos) && on_vectors(rope.sin));
  return part(in.q, in.q_weight) && part(in.k, in.k_weight) && tables;
}
inline bool codes_on_vectors(const Rows<float8_e4m3fn>& codes) {
  return reinterpret_cast<std::uintptr_t>(codes.data) % 8 == 0 && codes.outer_stride % 8 == 0 &&
         codes.inner_stride % 8 == 0;
}

/// Calls launch.operator()<dh>() with a width that lanes can hold; false for any other.
template <class Launch>
bool with_held_width(std::int64_t dh, Launch launch) {
  switch (dh) {
    case 64:
      launch.template operator()<64>();
      return true;
    case 96:
      launch.template operator()<96>();
      return true;
    case 128:
      launch.template operator()<128>();
      return true;
    case 192:
      launch.template operator()<192>();
      return true;
    case 256:
      launch.template operator()<256>();
      return true;
    default:
      return false;
  }
}

}  // namespace opbook::ch28::gpu
