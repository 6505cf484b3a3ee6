#pragma once

// A Pack is as many float32 lanes as one vector register holds. Operators are generic lambdas over
// Pack, float and Counted (replay.hpp); this header gives the first two the same small vocabulary.
// Compiler vector extensions do nearly all of it; intrinsics appear only where they fall short:
// conversions to and from 16 and 8 bits, and non-temporal stores.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "common/dtype.hpp"

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace opbook {

#if defined(__AVX512F__)
inline constexpr int pack_lanes = 16;
#elif defined(__AVX2__)
inline constexpr int pack_lanes = 8;
#else
inline constexpr int pack_lanes = 4;
#endif

struct Pack {
  typedef float Floats __attribute__((vector_size(4 * pack_lanes)));
  typedef std::uint32_t Bits __attribute__((vector_size(4 * pack_lanes)));
  typedef std::int32_t Mask __attribute__((vector_size(4 * pack_lanes)));

  Floats lanes;

  Pack() = default;
  Pack(Floats values) : lanes(values) {}
  Pack(float value) : lanes(value - Floats{}) {}  // x - 0 broadcasts and keeps -0, NaN and Inf

  Bits bits() const { return std::bit_cast<Bits>(lanes); }
  static Pack from_bits(Bits bits) { return std::bit_cast<Floats>(bits); }
};

inline Pack operator+(Pack a, Pack b) {
  return a.lanes + b.lanes;
}
inline Pack operator-(Pack a, Pack b) {
  return a.lanes - b.lanes;
}
inline Pack operator*(Pack a, Pack b) {
  return a.lanes * b.lanes;
}
inline Pack operator/(Pack a, Pack b) {
  return a.lanes / b.lanes;
}
inline Pack operator-(Pack a) {
  return -a.lanes;
}

inline Pack select(Pack::Mask where, Pack a, Pack b) {
  return where ? a.lanes : b.lanes;
}

inline Pack abs(Pack a) {
  return Pack::from_bits(a.bits() & 0x7FFFFFFFu);
}
inline float abs(float a) {
  return std::fabs(a);
}

/// The larger of two, and NaN as soon as one of them is: no maximum hides a NaN.
inline Pack max(Pack a, Pack b) {
  return select((a.lanes > b.lanes) | (a.lanes != a.lanes), a, b);
}
inline float max(float a, float b) {
  return (a > b || a != a) ? a : b;
}

/// Clamp for quantisation; NaN stays NaN.
inline Pack clamp(Pack a, float low, float high) {
  a = select(a.lanes < Pack(low).lanes, Pack(low), a);
  return select(a.lanes > Pack(high).lanes, Pack(high), a);
}
inline float clamp(float a, float low, float high) {
  return a < low ? low : a > high ? high : a;
}

/// a * b + c with one rounding.
inline Pack fma(Pack a, Pack b, Pack c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a.lanes, b.lanes, c.lanes);
#elif defined(__FMA__) && defined(__AVX2__)
  return _mm256_fmadd_ps(a.lanes, b.lanes, c.lanes);
#else
  for (int i = 0; i < pack_lanes; ++i) a.lanes[i] = std::fma(a.lanes[i], b.lanes[i], c.lanes[i]);
  return a;
#endif
}
inline float fma(float a, float b, float c) {
  return std::fma(a, b, c);
}
#if defined(__FMA__) && defined(__AVX2__)
inline constexpr bool has_fused_multiply_add = true;
#else
inline constexpr bool has_fused_multiply_add = false;
#endif

/// 1 / sqrt(a), both steps rounded: a row needs it once, so exactness costs nothing.
inline Pack rsqrt(Pack a) {
  Pack root;
  for (int lane = 0; lane < pack_lanes; ++lane) root.lanes[lane] = std::sqrt(a.lanes[lane]);
  return Pack(1.0f) / root;
}
inline float rsqrt(float a) {
  return 1.0f / std::sqrt(a);
}

// --- Folding the lanes of a register -------------------------------------------------------------

namespace detail {

template <int half, class Lanes, std::size_t... i>
inline Lanes halves_swapped(Lanes lanes, std::index_sequence<i...>) {
  return __builtin_shufflevector(lanes, lanes, (i ^ half)...);
}

}  // namespace detail

/// One lane of all: f(lanes, the same with their halves swapped), then in the halves, and so on.
template <class Lanes, class F, int half = sizeof(Lanes) / sizeof(Lanes{}[0]) / 2>
inline auto fold_lanes(Lanes lanes, F f) {
  if constexpr (half == 0) {
    return lanes[0];
  } else {
    constexpr std::make_index_sequence<sizeof lanes / sizeof lanes[0]> all;
    return fold_lanes<Lanes, F, half / 2>(f(lanes, detail::halves_swapped<half>(lanes, all)), f);
  }
}

// --- Rounding to 16 and 8 bits: dtype.hpp's integer arithmetic, lane by lane -------------------

namespace detail {

inline Pack::Bits choose(Pack::Mask where, Pack::Bits a, Pack::Bits b) {
  // As floats: the one form that GCC 12 turns into a single blend.
  return std::bit_cast<Pack::Bits>(where ? std::bit_cast<Pack::Floats>(a)
                                         : std::bit_cast<Pack::Floats>(b));
}
/// A register as 16-bit lanes: what is left to do once float32 has done its part costs half there.
typedef std::uint16_t Words __attribute__((vector_size(4 * pack_lanes)));
typedef std::int16_t SignedWords __attribute__((vector_size(4 * pack_lanes)));

template <std::size_t... i>
inline Words in_turn(Words even, Words odd, std::index_sequence<i...>) {
  return __builtin_shufflevector(even, odd, (i % 2 == 0 ? i : i + sizeof...(i))...);
}
/// The high halves of a's and b's lanes, in turn: a0 b0 a1 b1 ...
inline Words high_halves(Pack::Bits a, Pack::Bits b) {
  return in_turn(std::bit_cast<Words>(a >> 16), std::bit_cast<Words>(b),
                 std::make_index_sequence<2 * pack_lanes>());
}
/// Their low halves.
inline Words low_halves(Pack::Bits a, Pack::Bits b) {
  return in_turn(std::bit_cast<Words>(a), std::bit_cast<Words>(b << 16),
                 std::make_index_sequence<2 * pack_lanes>());
}

/// Whether a lane of either is NaN.
inline bool any_nan(Pack a, Pack b) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(a.lanes, b.lanes, _CMP_UNORD_Q) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_ps(_mm256_cmp_ps(a.lanes, b.lanes, _CMP_UNORD_Q)) != 0;
#else
  bool found = false;
  for (int i = 0; i < pack_lanes; ++i) found |= std::isunordered(a.lanes[i], b.lanes[i]);
  return found;
#endif
}

/// Every NaN as the one whose high bits are T's canonical NaN.
template <class T>
inline Pack with_canonical_nan(Pack a) {
  constexpr std::uint32_t bits = std::is_same_v<T, float16> ? 0x7FFFE000u : 0x7FFF0000u;
  return select(a.lanes != a.lanes, Pack(std::bit_cast<float>(bits)), a);
}

/// The rounded bfloat16 in the high half of each lane; the low half is still to be cleared. NaNs
/// must be canonical.
inline Pack::Bits bfloat16_high_bits(Pack a) {
  const Pack::Bits bits = a.bits();
  return bits + 0x7FFFu + ((bits >> 16) & 1u);
}

/// The bits of |a| + 2^(e + 20), e being the exponent of |a| but -6 at least: float32's own
/// addition rounds |a| to a multiple of 2^(e - 3), e4m3's step at that place, to nearest even. The
/// low bits of the sum then hold that multiple, 0 to 16, and its exponent field e + 147.
inline Pack::Bits e4m3_sum(Pack magnitude) {
  const Pack::Mask exponent = std::bit_cast<Pack::Mask>(magnitude.bits() & 0x7F800000u);
  const Pack::Mask least = Pack::Mask{} + (121 << 23);
  const Pack power = std::bit_cast<Pack::Floats>(exponent > least ? exponent : least);
  // The product is exact, or Inf: a sum that saturates all the same.
  const Pack step(0x1p20f);
  return (has_fused_multiply_add ? fma(power, step, magnitude) : power * step + magnitude).bits();
}

/// The codes of two packs, a byte each.
typedef std::uint8_t PairBytes __attribute__((vector_size(2 * pack_lanes)));

#if defined(__AVX2__) && !defined(__AVX512F__)

/// 16 (8 (e + 147) + multiple) in each lane, the multiple being 8 to 16 but of subnormals; at most
/// that of 448, unless a is NaN: then 0x7FC0 and above.
inline __m256i e4m3_sixteenfold(Pack a) {
  const Pack magnitude = _mm256_min_ps(Pack(448.0f).lanes, abs(a).lanes);  // of NaN the second
  const Pack::Bits sum = e4m3_sum(magnitude) & 0xFFFF001Fu;
  return _mm256_madd_epi16(std::bit_cast<__m256i>(sum), _mm256_set1_epi32(1 << 16 | 16));
}

/// The codes of a's lanes and b's: a0 to a3, b0 to b3, a4 to a7, b4 to b7. Two saturations save
/// instructions: that of a float's bits to 16 keeps the sign, and that of a code minus 128 where
/// it is negative to 8 makes 0x7F of NaN and nothing else.
[[gnu::always_inline]] inline PairBytes e4m3_codes(Pack a, Pack b) {
  const __m256i codes = _mm256_sub_epi16(
      _mm256_srli_epi16(_mm256_packs_epi32(e4m3_sixteenfold(a), e4m3_sixteenfold(b)), 4),
      _mm256_set1_epi16(8 * (147 - 7 + 1)));
  const __m256i ends =
      _mm256_packs_epi32(std::bit_cast<__m256i>(a.lanes), std::bit_cast<__m256i>(b.lanes));
  const __m256i minus_128 =
      _mm256_srai_epi16(_mm256_and_si256(ends, _mm256_set1_epi16(-0x8000)), 8);
  const __m256i words = _mm256_add_epi16(codes, minus_128);
  return std::bit_cast<PairBytes>(
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}
inline constexpr int place_in_codes(int pack, int lane) {
  return lane / 4 * 8 + pack * 4 + lane % 4;
}

#else

/// The codes of a's and b's lanes in turn.
[[gnu::always_inline]] inline PairBytes e4m3_codes(Pack a, Pack b) {
  const Pack::Bits sum_a = e4m3_sum(abs(a)), sum_b = e4m3_sum(abs(b));
  const Words high = high_halves(sum_a, sum_b);
  const Words multiple = low_halves(sum_a, sum_b) & 31;
  // 8 (e + 7) + multiple - 8, the code of a value whose leading bit is the multiple's 8.
  SignedWords code = std::bit_cast<SignedWords>((high >> 4) + multiple - 8 * (147 - 7 + 1));
  const SignedWords largest = SignedWords{} + 0x7E;
  code = code < largest ? code : largest;
  const SignedWords nan = std::bit_cast<SignedWords>(high) > SignedWords{} + 0x7F80;
  const Words sign = (high_halves(a.bits(), b.bits()) >> 15) << 7;
  return __builtin_convertvector(
      std::bit_cast<Words>(code - nan) | (sign & ~std::bit_cast<Words>(nan)), PairBytes);
}
inline constexpr int place_in_codes(int pack, int lane) {
  return 2 * lane + pack;
}

#endif

template <class Narrow>
inline Narrow narrow(Pack::Bits bits) {
  return __builtin_convertvector(bits, Narrow);
}

typedef std::uint16_t Halves __attribute__((vector_size(2 * pack_lanes)));
typedef std::uint8_t Bytes __attribute__((vector_size(pack_lanes)));

inline Pack widen_bfloat16(const bfloat16* from) {
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
#if defined(__AVX2__) && !defined(__AVX512F__)
  // GCC 12 makes four instructions of the conversion.
  return Pack::from_bits(
      std::bit_cast<Pack::Bits>(_mm256_cvtepu16_epi32(std::bit_cast<__m128i>(halves))) << 16);
#else
  return Pack::from_bits(__builtin_convertvector(halves, Pack::Bits) << 16);
#endif
}

inline Pack widen_float16(const std::uint16_t* from) {
#if defined(__AVX512F__)
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__AVX2__) && defined(__F16C__)
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  Pack result;
  for (int i = 0; i < pack_lanes; ++i) result.lanes[i] = to_float(float16{from[i]});
  return result;
#endif
}

/// NaNs must be canonical: the hardware keeps their payloads.
inline Halves float16_bits(Pack a) {
#if defined(__AVX512F__)
  return std::bit_cast<Halves>(_mm512_cvtps_ph(a.lanes, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__AVX2__) && defined(__F16C__)
  return std::bit_cast<Halves>(_mm256_cvtps_ph(a.lanes, _MM_FROUND_TO_NEAREST_INT));
#else
  Halves result;
  for (int i = 0; i < pack_lanes; ++i) result[i] = from_float<float16>(a.lanes[i]).bits;
  return result;
#endif
}

/// The codes of the first of two packs.
template <std::size_t... lane>
inline Bytes first_bytes(PairBytes codes, std::index_sequence<lane...>) {
  return __builtin_shufflevector(codes, codes, place_in_codes(0, lane)...);
}

/// The bits of a Pack rounded to T, ready to be stored. NaNs must be canonical where T has 16 bits.
template <class T>
inline auto packed_bits(Pack a) {
  if constexpr (std::is_same_v<T, float>) return a.lanes;
  if constexpr (std::is_same_v<T, bfloat16>) return narrow<Halves>(bfloat16_high_bits(a) >> 16);
  if constexpr (std::is_same_v<T, float16>) return float16_bits(a);
  if constexpr (std::is_same_v<T, float8_e4m3fn>) {
    return first_bytes(e4m3_codes(a, a), std::make_index_sequence<pack_lanes>());
  }
}

/// One non-temporal store: past the caches, so that the line is not read from memory first.
/// `to` is aligned to the size of `bits`.
template <class Bits>
inline void stream_bits(void* to, Bits bits) {
#if defined(__AVX512F__)
  if constexpr (sizeof(Bits) == 64) {
    return _mm512_stream_si512(static_cast<__m512i*>(to), std::bit_cast<__m512i>(bits));
  }
#endif
#if defined(__AVX__)
  if constexpr (sizeof(Bits) == 32) {
    return _mm256_stream_si256(static_cast<__m256i*>(to), std::bit_cast<__m256i>(bits));
  }
#endif
#if defined(__SSE2__)
  if constexpr (sizeof(Bits) == 16) {
    return _mm_stream_si128(static_cast<__m128i*>(to), std::bit_cast<__m128i>(bits));
  }
  if constexpr (sizeof(Bits) == 8) {
    return _mm_stream_si64(static_cast<long long*>(to), std::bit_cast<long long>(bits));
  }
  if constexpr (sizeof(Bits) == 4) {
    return _mm_stream_si32(static_cast<int*>(to), std::bit_cast<int>(bits));
  }
#endif
  std::memcpy(to, &bits, sizeof bits);
}

}  // namespace detail

/// Widens `pack_lanes` elements at any address.
template <class T>
inline Pack load_pack(const T* from) {
  if constexpr (std::is_same_v<T, float>) {
    Pack result;
    std::memcpy(&result, from, sizeof result);
    return result;
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return detail::widen_bfloat16(from);
  } else {
    static_assert(std::is_same_v<T, float16>);
    return detail::widen_float16(&from->bits);
  }
}

/// Rounds and stores `pack_lanes` elements at any address.
template <class T>
inline void store_pack(T* to, Pack value) {
  if constexpr (sizeof(T) == 2) value = detail::with_canonical_nan<T>(value);
  const auto bits = detail::packed_bits<T>(value);
  std::memcpy(to, &bits, sizeof bits);
}

// --- Magnitudes as integers ----------------------------------------------------------------------

/// The bits of a float without its sign.
template <class T>
using Magnitude = std::conditional_t<sizeof(T) == 2, std::int16_t, std::int32_t>;

template <class T>
inline Magnitude<T> magnitude(T value) {
  return std::bit_cast<Magnitude<T>>(value) & std::numeric_limits<Magnitude<T>>::max();
}

/// As many as one vector register holds.
template <class T>
using MagnitudeLanes __attribute__((vector_size(4 * pack_lanes))) = Magnitude<T>;

template <class T>
inline MagnitudeLanes<T> load_magnitudes(const T* from) {
  MagnitudeLanes<T> lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes & std::numeric_limits<Magnitude<T>>::max();
}

template <class Lanes>
inline Lanes larger(Lanes a, Lanes b) {
  return a > b ? a : b;
}

template <class Lanes>
inline auto largest_lane(Lanes lanes) {
  return fold_lanes(lanes, larger<Lanes>);
}

// --- Two packs at a time ------------------------------------------------------------------------

/// Which elements the two packs of a PackPair hold. `halves`: the first half of the elements and
/// the second. `even_odd`: two neighbouring bfloat16 are the low and the high half of one 32-bit
/// lane, so a shift and a mask widen them in place, where the other order needs the lanes
/// rearranged: half the instructions of a load, and fewer of a store.
enum class PairOrder { halves, even_odd };

inline constexpr int pair_elements = 2 * pack_lanes;

/// The order in which a loop over these element types is best done.
template <class... T>
inline constexpr PairOrder pair_order =
    ((std::is_same_v<T, bfloat16> || std::is_same_v<T, float8_e4m3fn>) && ...) ? PairOrder::even_odd
                                                                               : PairOrder::halves;

struct PackPair {
  Pack first, second;
};

template <PairOrder order, class T>
inline PackPair load_pair(const T* from) {
  if constexpr (order == PairOrder::even_odd) {
    static_assert(std::is_same_v<T, bfloat16>);
    Pack::Bits both;
    std::memcpy(&both, from, sizeof both);
    return {Pack::from_bits(both << 16), Pack::from_bits(both & 0xFFFF0000u)};
  } else {
    return {load_pack(from), load_pack(from + pack_lanes)};
  }
}

namespace detail {

template <std::size_t... i>
inline Words joined(Halves low, Halves high, std::index_sequence<i...>) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  // GCC 12 makes three instructions of the shuffle, where one does.
  return std::bit_cast<Words>(
      _mm256_set_m128i(std::bit_cast<__m128i>(high), std::bit_cast<__m128i>(low)));
#else
  return __builtin_shufflevector(low, high, i...);
#endif
}

/// The codes of a pair as its elements lie in memory.
template <PairOrder order, std::size_t... i>
inline PairBytes in_memory_order(PairBytes codes, std::index_sequence<i...>) {
  return __builtin_shufflevector(
      codes, codes,
      (order == PairOrder::halves ? place_in_codes(i / pack_lanes, i % pack_lanes)
                                  : place_in_codes(i % 2, i / 2))...);
}

/// The elements of a pair, rounded to the 16 bits of T. NaNs must be canonical.
template <PairOrder order, class T>
inline Words rounded_words(PackPair pair) {
  if constexpr (order == PairOrder::even_odd) {
    static_assert(std::is_same_v<T, bfloat16>);
    return high_halves(bfloat16_high_bits(pair.first), bfloat16_high_bits(pair.second));
  } else {
    return joined(packed_bits<T>(pair.first), packed_bits<T>(pair.second),
                  std::make_index_sequence<pair_elements>());
  }
}

}  // namespace detail

/// Rounds and stores `pair_elements` elements: at any address, or past the caches, `to` then being
/// aligned to pair_elements * sizeof(T) bytes. Inlined whatever the compiler thinks: in kernels of
/// many loops GCC stops to do so, and a call for each pair makes a loop three times as slow.
template <PairOrder order, bool streaming, class T>
[[gnu::always_inline]] inline void store_pair(T* to, PackPair pair) {
  const auto put = [](void* at, auto bits) {
    if constexpr (streaming) {
      detail::stream_bits(at, bits);
    } else {
      std::memcpy(at, &bits, sizeof bits);
    }
  };
  if constexpr (std::is_same_v<T, float8_e4m3fn>) {
    put(to, detail::in_memory_order<order>(detail::e4m3_codes(pair.first, pair.second),
                                           std::make_index_sequence<pair_elements>()));
  } else if constexpr (std::is_same_v<T, float>) {
    static_assert(order == PairOrder::halves);
    put(to, pair.first.lanes);
    put(to + pack_lanes, pair.second.lanes);
  } else {
    detail::Words words = detail::rounded_words<order, T>(pair);
    // One test for both packs and a branch that is hardly ever taken: a comparison and a blend for
    // each pack would cost float16 a third of its speed and bfloat16 an eighth.
    if (detail::any_nan(pair.first, pair.second)) [[unlikely]] {
      words = detail::rounded_words<order, T>(
          {detail::with_canonical_nan<T>(pair.first), detail::with_canonical_nan<T>(pair.second)});
    }
    put(to, words);
  }
}

/// Non-temporal stores are weakly ordered: after the last one, before anybody else may look.
inline void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/// Rounds to T and widens again: what storing and loading would have done.
template <class T>
inline Pack round_through(Pack value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    const Pack::Bits high = detail::bfloat16_high_bits(detail::with_canonical_nan<T>(value));
    return Pack::from_bits(high & 0xFFFF0000u);
  } else {
    T stored[pack_lanes];
    store_pack(stored, value);
    return load_pack(stored);
  }
}
template <class T>
inline float round_through(float value) {
  return to_float(from_float<T>(value));
}

}  // namespace opbook
