#pragma once

// A head in registers: neighbouring lanes of a warp hold it, `pairs` pairs of columns each, and
// read and write them as whole vectors, piece by piece.

#include <cstdint>

#include "ch28_design/held_inputs.cuh"
#include "ch28_design/lane.cuh"
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

/// The same number of bytes.
template <int words>
__device__ void store_words(void* to, const std::uint32_t (&from)[words]) {
  struct alignas(words * 4) Words {
    std::uint32_t words_[words];
  } together;
#pragma unroll
  for (int j = 0; j < words; ++j) together.words_[j] = from[j];
  *static_cast<Words*>(to) = together;
}

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

template <int count, class Divide>
__device__ void store_codes(float8_e4m3fn* to, const float (&values)[count],
                            const Divide& quotient) {
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

/// A lane's share of a head or of a weight, as it was read: two 16-bit elements a word, while
/// others are waited for.
template <class T, int pairs>
struct PackedPairs {
  std::uint32_t low[pairs / 2], high[pairs / 2];

  /// Asks for it.
  template <class Lane>
  __device__ static PackedPairs of(const T* row, const Lane& lane) {
    PackedPairs packed;
    lane.for_each_piece([&](const auto& piece) {
      const T* const from = row + piece.low;
      load_early(from, piece.words_of(packed.low));
      load_early(from + piece.to_high, piece.words_of(packed.high));
    });
    return packed;
  }
  template <class Lane>
  __device__ void store(T* head, const Lane& lane) const {
    lane.for_each_piece([&](const auto& piece) {
      T* const to = head + piece.low;
      store_words(to, piece.words_of(low));
      store_words(to + piece.to_high, piece.words_of(high));
    });
  }

  __device__ static PackedPairs of(const Pairs<pairs>& v) {
    PackedPairs packed;
    pack(v.low, packed.low);
    pack(v.high, packed.high);
    return packed;
  }
  __device__ Pairs<pairs> values() const {
    Pairs<pairs> v;
    unpack(low, v.low);
    unpack(high, v.high);
    return v;
  }

 private:
  using Words = std::uint32_t[pairs / 2];
  using Values = float[pairs];

  __device__ static void pack(const Values& values, Words& words) {
#pragma unroll
    for (int j = 0; j < pairs / 2; ++j) {
      words[j] = pack_word<T>(values[2 * j], values[2 * j + 1]);
    }
  }
  __device__ static void unpack(const Words& words, Values& values) {
#pragma unroll
    for (int j = 0; j < pairs / 2; ++j) {
      const float2 both = unpack_word<T>(words[j]);
      values[2 * j] = both.x;
      values[2 * j + 1] = both.y;
    }
  }
};

/// The angles of a lane's pairs; not read where they do not turn.
template <class Lane>
struct HeldAngles {
  float cos[Lane::pairs], sin[Lane::pairs];

  template <class T>
  __device__ HeldAngles(const HeldInputs<T>& in, const Lane& lane, TableRow at) {
    lane.for_each_piece([&](const auto& piece) {
      if (!piece.turns) return;
      load(in.cos + std::uint64_t{at.row} * in.cos_stride, piece.first_pair, piece.of(cos));
      load(in.sin + std::uint64_t{at.row} * in.sin_stride, piece.first_pair, piece.of(sin));
    });
  }
  template <class Piece>
  __device__ void turn(Pairs<Lane::pairs>& v, const Piece& piece) const {
    gpu::turn(piece.of(v.low), piece.of(v.high), piece.of(cos), piece.of(sin));
  }

 private:
  template <int count>
  __device__ static void load(const std::byte* row, unsigned first, float (&values)[count]) {
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

/// rstd of a whole head, in each of its lanes. The first pieces of all lanes are a half of the
/// tree, the second ones, where there are any, the rest of it.
template <class Lane>
__device__ float held_rstd(const Pairs<Lane::pairs>& x, const Lane& lane, float eps) {
  float sum = -0.0f;  // which adds nothing
  lane.for_each_piece([&](const auto& piece) {
    sum += tree_sum<Lane::lanes>(squares(piece.of(x.low), piece.of(x.high)));
  });
  return rstd_of(sum, static_cast<float>(Lane::dh), eps);
}

/// Where a lane's part of a head goes.
struct HeadTarget {
  const HeldOutputs& out;
  Head head;
  float8_e4m3fn* codes;  ///< from the lane's first lower column on
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
  if (!to.stored) return;
  if (lane.within_team() == 0) *to.scale = scale;
  const auto store = [&](const auto& quotient) {
    lane.for_each_piece([&](const auto& piece) {
      float8_e4m3fn* const codes = to.codes + static_cast<int>(piece.low - lane.low());
      store_codes(codes, piece.of(y.low), quotient);
      store_codes(codes + piece.to_high, piece.of(y.high), quotient);
    });
  };
  // Nearly always two instructions an element, where issue slots are short, instead of three.
  if (TwoPartInverse::serves_float32(scale)) {
    store(TwoPartInverse(scale));
  } else {
    store(Quotient<float>(scale));
  }
}

/// All of the operator on a head that was read. `there`: whether its token's angles are.
template <class T, class Lane>
__device__ void held_finish(const PackedPairs<T, Lane::pairs>& x, const Lane& lane, float eps,
                            const SharedOperands<T, Lane>& operands, bool there,
                            const HeadTarget& to) {
  Pairs<Lane::pairs> v = x.values();
  const float rstd = held_rstd(v, lane, eps);
  const Pairs<Lane::pairs> weight = operands.weight.values();
  lane.for_each_piece([&](const auto& piece) {
    // What should turn by angles that are not there is NaN.
    const float by = piece.turns && !there ? __uint_as_float(0x7FFFFFFFu) : rstd;
    normalise(piece.of(v.low), piece.of(weight.low), by);
    normalise(piece.of(v.high), piece.of(weight.high), by);
    if (piece.turns) operands.angles.turn(v, piece);
  });
  if (to.out.with_y && to.stored) {
    lane.for_each_piece([&](const auto& piece) {
      float* const y = to.out.y.template at<float>(to.head) + piece.low;
      store_y(y, piece.of(v.low));
      store_y(y + piece.to_high, piece.of(v.high));
    });
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
