#pragma once

// A head in registers: neighbouring lanes of a warp hold it, `pairs` pairs of columns each, and
// read and write them as whole vectors.

#include <bit>
#include <cstdint>

#include "ch28_design/held_inputs.cuh"
#include "ch28_design/pairs.cuh"

namespace opbook::ch28::gpu {

/// 4, 8 or 16 bytes. The compiler leaves the loads where they stand: otherwise, to save registers,
/// it moves them behind the reductions that they are to overlap with. (Not by the path for what is
/// never written: a kernel launched early is there while the one before it still writes.)
template <int words>
__device__ void load_early(const void* from, std::uint32_t (&to)[words]) {
  if constexpr (words == 4) {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(from));
  } else if constexpr (words == 2) {
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "l"(from));
  } else {
    static_assert(words == 1);
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(to[0]) : "l"(from));
  }
}

/// `count` 16-bit elements, packed, read and written at once.
template <class T, int count>
struct alignas(count * 2) Packed {
  std::uint32_t words[count / 2];

  __device__ void unpack(float (&values)[count]) const {
#pragma unroll
    for (int j = 0; j < count / 2; ++j) {
      const float2 pair = unpack_word<T>(words[j]);
      values[2 * j] = pair.x;
      values[2 * j + 1] = pair.y;
    }
  }
  __device__ static Packed of(const float (&values)[count]) {
    Packed packed;
#pragma unroll
    for (int j = 0; j < count / 2; ++j) {
      packed.words[j] = pack_word<T>(values[2 * j], values[2 * j + 1]);
    }
    return packed;
  }
};

/// `count` float32, as vectors of 16 bytes where there are as many.
template <int count>
__device__ void load_angles(const float* from, float (&values)[count]) {
  constexpr int together = count < 4 ? count : 4;
#pragma unroll
  for (int first = 0; first < count; first += together) {
    std::uint32_t words[together];
    load_early(from + first, words);
#pragma unroll
    for (int j = 0; j < together; ++j) values[first + j] = __uint_as_float(words[j]);
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

/// A lane of a team that holds a head of `width` columns, and the columns that are its own. A team
/// has as many lanes as a power of two; of 96 and 192 columns a quarter of them have nothing to do:
/// they stand in for the first one, but add and store nothing. `all_turn`: the whole head turns,
/// which the compiler then knows.
template <int width, int pairs_of_lane, bool all_turn>
class Lane {
 public:
  static constexpr int dh = width, pairs = pairs_of_lane;
  static constexpr unsigned busy_lanes = dh / 2 / pairs;
  static constexpr unsigned lanes = std::bit_ceil(busy_lanes);
  static constexpr unsigned teams_a_warp = 32 / lanes;
  static_assert(busy_lanes * pairs * 2 == dh && lanes <= 32);

  __device__ explicit Lane(int half)
      : first_pair_(busy() ? within_team() * pairs : 0),
        columns_(static_cast<int>(first_pair_), dh, half) {}

  __device__ static unsigned within_team() { return threadIdx.x % lanes; }
  __device__ static unsigned team() { return threadIdx.x / lanes; }
  __device__ static bool busy() { return busy_lanes == lanes || within_team() < busy_lanes; }

  __device__ unsigned first_pair() const { return first_pair_; }
  __device__ bool turns() const { return all_turn || columns_.turns; }
  /// The lower columns of its pairs begin here, and the higher ones so much further.
  __device__ unsigned low() const { return all_turn ? first_pair_ : columns_.low; }
  __device__ unsigned to_high() const { return all_turn ? dh / 2 : columns_.high - columns_.low; }

 private:
  unsigned first_pair_;
  PairColumns columns_;
};

/// A lane's share of a head or of a weight, as it was read: packed, while others are waited for.
template <class T, int pairs>
struct PackedPairs {
  Packed<T, pairs> low, high;

  /// Asks for it.
  template <class Lane>
  __device__ static PackedPairs of(const T* row, const Lane& lane) {
    const T* const from = row + lane.low();
    PackedPairs packed;
    load_early(from, packed.low.words);
    load_early(from + lane.to_high(), packed.high.words);
    return packed;
  }
  template <class Lane>
  __device__ void store(T* head, const Lane& lane) const {
    T* const to = head + lane.low();
    *reinterpret_cast<Packed<T, pairs>*>(to) = low;
    *reinterpret_cast<Packed<T, pairs>*>(to + lane.to_high()) = high;
  }

  __device__ static PackedPairs of(const Pairs<pairs>& v) {
    return {Packed<T, pairs>::of(v.low), Packed<T, pairs>::of(v.high)};
  }
  __device__ Pairs<pairs> values() const {
    Pairs<pairs> v;
    low.unpack(v.low);
    high.unpack(v.high);
    return v;
  }
};

/// The angles of a lane's pairs; not read where they do not turn.
template <class Lane>
struct HeldAngles {
  float cos[Lane::pairs], sin[Lane::pairs];

  template <class T>
  __device__ HeldAngles(const HeldInputs<T>& in, const Lane& lane, TableRow at) {
    if (!lane.turns()) return;
    load(in.cos + std::uint64_t{at.row} * in.cos_stride, lane.first_pair(), cos);
    load(in.sin + std::uint64_t{at.row} * in.sin_stride, lane.first_pair(), sin);
  }
  __device__ void turn(Pairs<Lane::pairs>& v) const { gpu::turn(v.low, v.high, cos, sin); }

 private:
  __device__ static void load(const std::byte* row, unsigned first, float (&values)[Lane::pairs]) {
    load_angles(reinterpret_cast<const float*>(row) + first, values);
  }
};

/// What the q heads of a token share, and its k heads: a lane's part of their weight and angles.
template <class T, class Lane>
struct SharedOperands {
  PackedPairs<T, Lane::pairs> weight;
  HeldAngles<Lane> angles;

  /// Asks for them; the earlier the better, for no reduction depends on them.
  __device__ SharedOperands(const HeldInputs<T>& in, const Lane& lane, const T* weight_row,
                            TableRow at)
      : weight(PackedPairs<T, Lane::pairs>::of(weight_row, lane)), angles(in, lane, at) {}
};

/// rstd of a whole head, in each of its lanes.
template <class Lane>
__device__ float held_rstd(const Pairs<Lane::pairs>& x, const Lane& lane, float eps) {
  const float sum = tree_sum<Lane::lanes>(lane.busy() ? x.squares() : 0.0f);
  return rstd_of(sum, static_cast<float>(Lane::dh), eps);
}

/// Where a lane's part of a head goes.
struct HeadTarget {
  const HeldOutputs& out;
  Head head;
  float8_e4m3fn* codes;  ///< from the lane's lower columns on
  float* scale;
  bool stored;  ///< whether the head is there at all

  template <class Lane>
  __device__ HeadTarget(const HeldOutputs& outputs, const Lane& lane, std::uint32_t row, Head of,
                        bool is_stored)
      : out(outputs),
        head(of),
        codes(outputs.codes.at<float8_e4m3fn>(of) + lane.low()),
        scale(outputs.scale + row),
        stored(is_stored) {}
};

/// Scale and codes of a head.
template <class Lane>
__device__ void held_quantise(const Pairs<Lane::pairs>& y, const Lane& lane, const HeadTarget& to) {
  const float scale = scale_of(lanes_max(__float_as_uint(y.largest()), Lane::lanes));
  if (!to.stored || !lane.busy()) return;
  if (lane.within_team() == 0) *to.scale = scale;
  const CodeQuotient quotient(scale);
  store_codes(to.codes, y.low, quotient);
  store_codes(to.codes + lane.to_high(), y.high, quotient);
}

/// All of the operator on a head that was read. `there`: whether its token's angles are.
template <class T, class Lane>
__device__ void held_finish(const PackedPairs<T, Lane::pairs>& x, const Lane& lane, float eps,
                            const SharedOperands<T, Lane>& operands, bool there,
                            const HeadTarget& to) {
  Pairs<Lane::pairs> v = x.values();
  float rstd = held_rstd(v, lane, eps);
  // All of a lane's pairs turn or none: what should turn by angles that are not there is NaN.
  if (lane.turns() && !there) rstd = __uint_as_float(0x7FFFFFFFu);
  v.normalise(operands.weight.values(), rstd);
  if (lane.turns()) operands.angles.turn(v);
  if (to.out.with_y && to.stored && lane.busy()) {
    float* const y = to.out.y.at<float>(to.head) + lane.low();
    store_y(y, v.low);
    store_y(y + lane.to_high(), v.high);
  }
  held_quantise(v, lane, to);
}

/// One row of the flat grid: asked for when it is made, worked off by finish().
template <class T, class Lane>
class HeldHead {
 public:
  __device__ HeldHead(const HeldInputs<T>& in, const Lane& lane, std::uint32_t row)
      : row_(row),
        head_(in.head(row)),
        at_(in.table_row(head_.token)),
        x_(PackedPairs<T, Lane::pairs>::of(in.x(head_), lane)),
        operands_(in, lane, in.weight(head_), at_) {}

  __device__ void finish(const HeldInputs<T>& in, const Lane& lane, const HeldOutputs& out,
                         bool stored) const {
    held_finish(x_, lane, in.eps, operands_, at_.there, HeadTarget(out, lane, row_, head_, stored));
  }

 private:
  std::uint32_t row_;
  Head head_;
  TableRow at_;
  PackedPairs<T, Lane::pairs> x_;
  SharedOperands<T, Lane> operands_;
};

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
