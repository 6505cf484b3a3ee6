#pragma once

// Which columns of a head are a lane's: pieces of neighbouring pairs, each a whole vector.

#include <bit>

#include "ch28_design/pairs.cuh"

namespace opbook::ch28::gpu {

/// Neighbouring pairs of a lane: `count` of those that it holds, from `begin` on.
template <int begin, int count>
struct Piece {
  unsigned first_pair;  ///< in the head
  unsigned low;         ///< the lower columns of its pairs begin here,
  unsigned to_high;     ///< and the higher ones so much further
  bool turns;           ///< all of it turns, or none

  /// Its part of what the lane holds: of a value a pair, or of words with two packed.
  template <class Value, int pairs>
  __device__ static auto& of(Value (&values)[pairs]) {
    return reinterpret_cast<Value(&)[count]>(values[begin]);
  }
  template <class Word, int words>
  __device__ static auto& words_of(Word (&packed)[words]) {
    return reinterpret_cast<Word(&)[count / 2]>(packed[begin / 2]);
  }
};

/// A lane of a team that holds a head of `width` columns, and the columns that are its own. Lanes
/// of a team are a power of two. Where a lane's pairs are one too, they are neighbours. Six are two
/// pieces: first each lane has four pairs, then, behind those of all lanes, two more. So a piece is
/// a whole vector, and the next lane's lies beside it. `all_turn`: the whole head turns, which the
/// compiler then knows.
template <int width, int pairs_of_lane, bool all_turn>
class Lane {
 public:
  static constexpr int dh = width, pairs = pairs_of_lane;
  static constexpr unsigned lanes = dh / 2 / pairs;
  static constexpr unsigned teams_a_warp = 32 / lanes;
  static_assert(lanes * pairs * 2 == dh && std::has_single_bit(lanes) && lanes <= 32);

  __device__ explicit Lane(int half)
      : first_(piece<0, in_first>(half)), second_(piece<in_first, pairs - in_first>(half)) {}

  __device__ static unsigned within_team() { return threadIdx.x % lanes; }
  __device__ static unsigned team() { return threadIdx.x / lanes; }

  /// Its first lower column.
  __device__ unsigned low() const { return first_.low; }

  /// f(piece) for its pieces, in order.
  template <class F>
  __device__ void for_each_piece(F f) const {
    f(first_);
    if constexpr (in_first < pairs) f(second_);
  }

 private:
  static constexpr int in_first = std::bit_floor(static_cast<unsigned>(pairs));

  template <int begin, int count>
  __device__ static Piece<begin, count> piece(int half) {
    const unsigned first = lanes * begin + within_team() * count;
    if (all_turn) return {first, first, dh / 2, true};
    const PairColumns columns(static_cast<int>(first), dh, half);
    return {first, static_cast<unsigned>(columns.low),
            static_cast<unsigned>(columns.high - columns.low), columns.turns};
  }

  Piece<0, in_first> first_;
  Piece<in_first, pairs - in_first> second_;  ///< nothing, where the first one is all
};

}  // namespace opbook::ch28::gpu
