#pragma once

// The fast backend of the row primitives: packs of SIMD lanes, rows shared out over threads. An
// operator written against it runs unchanged on the metered backend (replay.hpp), which counts.
//
// Every sum is taken in the same order whatever the machine: element i is added to partial sum
// i mod 32, and the 32 partial sums are folded in halves. So a result does not depend on the width
// of the machine's registers, on the number of threads, or on the backend.

#include <omp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "common/exact_divisor.hpp"
#include "common/rows.hpp"
#include "common/simd.hpp"

namespace opbook {

/// Partial sums of a reduction; see the head of this file.
inline constexpr int sum_lanes = 32;

/// How map() writes. `automatic`: past the caches when the kernel's output is too large to stay in
/// them (which saves reading every line before writing it), through them otherwise.
enum class Stores { automatic, ordinary, streaming };

/// Both members of a NeoX pair, as a function for map_pairs() returns them.
template <class V>
struct LowHigh {
  V low, high;
};
template <class V>
LowHigh(V, V) -> LowHigh<V>;

/// Memory of one thread for the rows it works on: what a GPU would hold in registers and shared
/// memory. It grows when first used and is kept, so that operators do not allocate.
class ScratchSpace {
 public:
  void begin_row() { used_ = 0; }
  template <class T>
  Row<T> row(std::int64_t size) {
    if (used_ == slots_.size()) slots_.emplace_back();
    std::vector<std::byte>& slot = slots_[used_++];
    const std::size_t bytes = size * sizeof(T);
    if (slot.size() < bytes) slot.resize(bytes);
    return {reinterpret_cast<T*>(slot.data()), size};
  }

 private:
  std::vector<std::vector<std::byte>> slots_;  // one a request, so that growing moves no other
  std::size_t used_ = 0;
};

/// A row of scratch. map() writes it through the caches even where it streams its output.
template <class T>
struct Scratch : Row<T> {
  Scratch slice(std::int64_t begin, std::int64_t count) const {
    return {Row<T>::slice(begin, count)};
  }
};

/// What one thread needs to work on a row: the primitives, and scratch that stands for registers
/// and shared memory.
class FastRow {
 public:
  FastRow(ScratchSpace& scratch, bool streaming) : scratch_(scratch), streaming_(streaming) {}

  /// f(x[0]) + f(x[1]) + ... in float32.
  template <class T, class F>
  float sum(Row<const T> x, F f) {
    constexpr PairOrder order = pair_order<T>;
    constexpr int pairs = sum_lanes / pair_elements;
    std::array<PackPair, pairs> partial;
    partial.fill({Pack(0.0f), Pack(0.0f)});
    std::int64_t i = 0;
    for (; i + sum_lanes <= x.size; i += sum_lanes) {
      for (int p = 0; p < pairs; ++p) {
        const PackPair v = load_pair<order>(x.data + i + p * pair_elements);
        partial[p].first = partial[p].first + f(v.first);
        partial[p].second = partial[p].second + f(v.second);
      }
    }
    std::array<float, sum_lanes> lanes;
    for (int p = 0; p < pairs; ++p) {
      float* const to = lanes.data() + p * pair_elements;
      for (int lane = 0; lane < pack_lanes; ++lane) {
        const bool split = order == PairOrder::even_odd;
        to[split ? 2 * lane : lane] = partial[p].first.lanes[lane];
        to[split ? 2 * lane + 1 : pack_lanes + lane] = partial[p].second.lanes[lane];
      }
    }
    for (int lane = 0; i < x.size; ++i, ++lane) lanes[lane] += f(to_float(x.data[i]));
    for (int half = sum_lanes / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    return lanes[0];
  }

  /// max |x[i]|, NaN if any element is NaN, 0 for an empty row. The bits of floats without their
  /// signs order as integers do, those of a NaN above all others: so nothing need be widened, and
  /// no NaN hides.
  template <class T>
  float max_abs(Row<const T> x) {
    using Lanes = MagnitudeLanes<T>;
    constexpr std::int64_t step = sizeof(Lanes) / sizeof(T);
    constexpr int chains = 4;  // independent ones: one maximum waits for the one before it
    Lanes largest[chains] = {};
    std::int64_t i = 0;
    for (; i + chains * step <= x.size; i += chains * step) {
      for (int c = 0; c < chains; ++c) {
        largest[c] = larger(largest[c], load_magnitudes(x.data + i + c * step));
      }
    }
    for (; i + step <= x.size; i += step) {
      largest[0] = larger(largest[0], load_magnitudes(x.data + i));
    }
    auto result = largest_lane(larger(larger(largest[0], largest[1]),  //
                                      larger(largest[2], largest[3])));
    for (; i < x.size; ++i) result = std::max(result, magnitude(x.data[i]));
    return to_float(std::bit_cast<T>(result));
  }

  /// y[i] = f(x0[i], x1[i], ...), rounded once to y's type. y may be one of the inputs.
  template <class U, class F, class... T>
  void map(Row<U> y, F f, Row<T>... x) {
    if (streaming_) {
      map_with<true, false>(y, Row<U>(), f, x...);
    } else {
      map_with<false, false>(y, Row<U>(), f, x...);
    }
  }

  template <class U, class F, class... T>
  void map(Scratch<U> y, F f, Row<T>... x) {
    map_with<false, false>(Row<U>(y), Row<U>(), f, x...);
  }

  /// map() whose result is kept in scratch as well as written out: what has been written out would
  /// have to be read again. Rounded once for both.
  template <class U, class F, class... T>
  void map_keeping(Scratch<U> kept, Row<U> y, F f, Row<T>... x) {
    if (streaming_) {
      map_with<true, true>(y, kept, f, x...);
    } else {
      map_with<false, true>(y, kept, f, x...);
    }
  }

  /// NeoX pairs: y[p], y[p + h] = f(x[p], x[p + h], a[p], b[p]...) for p below h = y.size / 2, f
  /// returning a LowHigh; each rounded once. y may be x.
  template <class U, class F, class T, class... Table>
  void map_pairs(Row<U> y, F f, Row<T> x, Row<Table>... table) {
    constexpr std::int64_t alignment = pair_elements * sizeof(U);
    const bool halves_agree = y.size / 2 * static_cast<std::int64_t>(sizeof(U)) % alignment == 0;
    if (streaming_ && halves_agree) {
      map_pairs_with<true>(y, f, x, table...);
    } else {
      map_pairs_with<false>(y, f, x, table...);
    }
  }
  template <class U, class F, class T, class... Table>
  void map_pairs(Scratch<U> y, F f, Row<T> x, Row<Table>... table) {
    map_pairs_with<false>(Row<U>(y), f, x, table...);
  }

  /// q[i] = e4m3(x[i] / scale), a true float32 division, saturating at +-448.
  template <class T>
  void quantise(Row<float8_e4m3fn> q, Row<const T> x, float scale) {
    const ExactDivisor divisor(scale);
    if (divisor.usable) {
      map(q, [=](auto v) { return divisor.divide(v); }, x);
    } else {
      map(q, [=](auto v) { return v / scale; }, x);
    }
  }

  /// Room for `size` elements until the row is done; contents are whatever was there.
  template <class T>
  Scratch<T> scratch(std::int64_t size) {
    return {scratch_.row<T>(size)};
  }

  /// One float32 of a vector that holds one element a row.
  float load(Row<const float> x, std::int64_t i) { return x.data[i]; }
  void store(Row<float> y, std::int64_t i, float value) { y.data[i] = value; }

  /// One index of a vector that holds one a row.
  template <class Index>
  std::int64_t index(Row<const Index> x, std::int64_t i) {
    return x.data[i];
  }

  /// Bytes that map() brings nearer while it works: the next row's, so that its first pass does
  /// not wait for memory. Worth 20 to 30 % to rms_norm on two cores of a Zen 3: without it a row's
  /// reduction only reads and its map only writes, and neither fills the memory bus.
  void prefetch_next(const void* begin, std::int64_t bytes) {
    next_ = static_cast<const char*>(begin);
    next_end_ = next_ + bytes;
  }

 private:
  template <bool streaming, bool keeping, class U, class F, class... T>
  void map_with(Row<U> y, Row<U> kept, F f, Row<T>... x) {
    constexpr PairOrder order = pair_order<U, std::remove_const_t<T>...>;
    constexpr std::int64_t alignment = pair_elements * sizeof(U);
    std::int64_t i = 0;
    const auto one = [&] {
      const U result = from_float<U>(f(to_float(x.data[i])...));
      y.data[i] = result;
      if constexpr (keeping) kept.data[i] = result;
    };
    const auto pair = [&](auto... v) { return PackPair{f(v.first...), f(v.second...)}; };
    if (streaming) {
      for (; i < y.size && reinterpret_cast<std::uintptr_t>(y.data + i) % alignment; ++i) one();
    }
    const char* next = next_;
    for (; i + pair_elements <= y.size; i += pair_elements) {
      prefetch_line(next);
      const PackPair result = pair(load_pair<order>(x.data + i)...);
      store_pair<order, streaming>(y.data + i, result);
      if constexpr (keeping) store_pair<order, false>(kept.data + i, result);
    }
    next_ = next;
    for (; i < y.size; ++i) one();
  }

  template <bool streaming, class U, class F, class T, class... Table>
  void map_pairs_with(Row<U> y, F f, Row<T> x, Row<Table>... table) {
    constexpr PairOrder order =
        pair_order<U, std::remove_const_t<T>, std::remove_const_t<Table>...>;
    constexpr std::int64_t alignment = pair_elements * sizeof(U);
    const std::int64_t h = y.size / 2;
    std::int64_t p = 0;
    const auto one = [&] {
      const auto turned =
          f(to_float(x.data[p]), to_float(x.data[p + h]), to_float(table.data[p])...);
      y.data[p] = from_float<U>(turned.low);
      y.data[p + h] = from_float<U>(turned.high);
    };
    if (streaming) {
      for (; p < h && reinterpret_cast<std::uintptr_t>(y.data + p) % alignment; ++p) one();
    }
    const char* next = next_;
    for (; p + pair_elements <= h; p += pair_elements) {
      prefetch_line(next);
      prefetch_line(next);
      const PackPair low = load_pair<order>(x.data + p);
      const PackPair high = load_pair<order>(x.data + p + h);
      const auto turn = [&](auto... t) {
        const auto first = f(low.first, high.first, t.first...);
        const auto second = f(low.second, high.second, t.second...);
        store_pair<order, streaming>(y.data + p, {first.low, second.low});
        store_pair<order, streaming>(y.data + p + h, {first.high, second.high});
      };
      turn(load_pair<order>(table.data + p)...);
    }
    next_ = next;
    for (; p < h; ++p) one();
  }

  /// `next` is a copy of next_: one that the compiler can keep in a register.
  void prefetch_line(const char*& next) const {
    if (next < next_end_) {
      __builtin_prefetch(next);
      next += 64;
    }
  }

  ScratchSpace& scratch_;
  bool streaming_;
  const char* next_ = nullptr;
  const char* next_end_ = nullptr;
};

/// Runs kernels on the CPU's cores.
class Fast {
 public:
  explicit Fast(Stores stores = Stores::automatic)
      : stores_(stores), scratch_(omp_get_max_threads()) {}

  /// One kernel call over the rows of `in`, which become the rows of `out`:
  /// body(primitives, i) for every row i, rows shared out statically over the threads.
  template <class T, class U, class Body>
  void kernel(const char* /*name*/, Rows<const T> in, Rows<U> out, Body body) {
    const std::int64_t m = in.rows();
    const std::int64_t in_row = in.cols * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t out_bytes = m * out.cols * static_cast<std::int64_t>(sizeof(U));
    const bool streaming = stores_ == Stores::streaming ||
                           (stores_ == Stores::automatic && out_bytes >= streaming_threshold);
#pragma omp parallel num_threads(static_cast<int>( \
        scratch_.size())) if (m > 1 && m * in_row + out_bytes >= parallel_threshold)
    {
      ScratchSpace& scratch = scratch_[omp_get_thread_num()];
      FastRow row(scratch, streaming);
#pragma omp for schedule(static) nowait
      for (std::int64_t i = 0; i < m; ++i) {
        if (i + 1 < m) row.prefetch_next(in.row(i + 1).data, in_row);
        scratch.begin_row();
        body(row, i);
      }
      if (streaming) stream_fence();
    }
  }

 private:
  // Bytes. Below the first a fork of the threads costs more than it saves; above the second an
  // output no longer fits the caches it would be written through.
  static constexpr std::int64_t parallel_threshold = 1 << 17;
  static constexpr std::int64_t streaming_threshold = 8 << 20;

  Stores stores_;
  std::vector<ScratchSpace> scratch_;  // one a thread
};

}  // namespace opbook
