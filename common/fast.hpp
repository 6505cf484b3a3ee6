#pragma once

// The fast backend of the row primitives: packs of SIMD lanes, rows shared out over threads. An
// operator written against it runs unchanged on the metered backend (replay.hpp), which counts.

#include <omp.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "common/exact_divisor.hpp"
#include "common/rows.hpp"
#include "common/running_sum.hpp"
#include "common/simd.hpp"

namespace opbook {

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
    const std::size_t bytes = size * sizeof(T) + line;
    if (slot.size() < bytes) slot.resize(bytes);
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(slot.data());
    return {reinterpret_cast<T*>(slot.data() + (line - begin % line)), size};
  }

 private:
  static constexpr std::size_t line = 64;  // no access lies across two of the cache's lines

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

/// Memory that will be read soon, brought nearer a few lines at a time.
class Ahead {
 public:
  Ahead() = default;
  /// A map that sums the next row reads it in step with this: hence the lead. What lies before it
  /// has been brought by the row before, whose lead it was.
  Ahead(const void* row, std::int64_t bytes)
      : next_(static_cast<const char*>(row) + lead), end_(next_ + bytes) {}

  template <std::int64_t bytes>
  void prefetch() {
    if (next_ >= end_) return;
    for (std::int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(next_ + at);
    next_ += bytes;
  }

 private:
  static constexpr std::int64_t lead = 2048;

  const char* next_ = nullptr;
  const char* end_ = nullptr;
};

/// What one thread needs to work on a row: the primitives, and scratch that stands for registers
/// and shared memory.
class FastRow {
 public:
  FastRow(ScratchSpace& scratch, bool streaming) : scratch_(scratch), streaming_(streaming) {}

  /// f(x[0]) + f(x[1]) + ... in float32.
  template <class T, class F>
  float sum(Row<const T> x, F f) {
    return RunningSum(x, f).finish();
  }

  /// sum() of the kernel's own row of its input, which map_and_sum_next() has already taken where
  /// there was a row before. Always of the same f.
  template <class T, class F>
  float sum_begun(Row<const T> x, F f) {
    return begun_row_ == x.data ? begun_ : sum(x, f);
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
      map_with<true, false>(y, Row<U>(), Row<const float>(), Nothing(), f, x...);
    } else {
      map_with<false, false>(y, Row<U>(), Row<const float>(), Nothing(), f, x...);
    }
  }

  template <class U, class F, class... T>
  void map(Scratch<U> y, F f, Row<T>... x) {
    map_with<false, false>(Row<U>(y), Row<U>(), Row<const float>(), Nothing(), f, x...);
  }

  /// map(), and meanwhile the sum() of g over the next row of the kernel's input, whose elements
  /// are of type Next, for sum_begun(): while stores wait for memory there is time to calculate.
  /// Worth 20 to 30 % to rms_norm in float32 on a Zen 3, and nothing where instructions are the
  /// limit.
  template <class Next, class U, class F, class G, class... T>
  void map_and_sum_next(Row<U> y, F f, G g, Row<T>... x) {
    const Row<const Next> next = next_to_sum<Next>();
    const float sum = streaming_ ? map_with<true, false>(y, Row<U>(), next, g, f, x...)
                                 : map_with<false, false>(y, Row<U>(), next, g, f, x...);
    keep_begun(next.data, sum);
  }
  template <class Next, class U, class F, class G, class... T>
  void map_and_sum_next(Scratch<U> y, F f, G g, Row<T>... x) {
    const Row<const Next> next = next_to_sum<Next>();
    keep_begun(next.data, map_with<false, false>(Row<U>(y), Row<U>(), next, g, f, x...));
  }

  /// map() of a function in which each operation waits for the one before it. f(v) changes an array
  /// of values, none of which depends on another: while one waits, the others go on.
  template <class U, class F, class T>
  void map_chains(Row<U> y, F f, Row<T> x) {
    constexpr std::int64_t alignment = pair_elements * sizeof(U);
    if (streaming_ && reinterpret_cast<std::uintptr_t>(y.data) % alignment == 0) {
      map_chains_with<true>(y, f, x);
    } else {
      map_chains_with<false>(y, f, x);
    }
  }

  /// map() whose result is kept in scratch as well as written out: what has been written out would
  /// have to be read again. Rounded once for both.
  template <class U, class F, class... T>
  void map_keeping(Scratch<U> kept, Row<U> y, F f, Row<T>... x) {
    if (streaming_) {
      map_with<true, true>(y, kept, Row<const float>(), Nothing(), f, x...);
    } else {
      map_with<false, true>(y, kept, Row<const float>(), Nothing(), f, x...);
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

  /// What a kernel does before each row: scratch is free again, and `next`, the row of the input
  /// that this thread will work on afterwards, is brought nearer by the maps of this one. Worth 20
  /// to 30 % to rms_norm on two cores of a Zen 3: without it a row's reduction only reads and its
  /// map only writes, and neither fills the memory bus. `next` is empty after the last row;
  /// where this thread will work on several rows then, `rows` of them lie side by side.
  template <class T>
  void begin_row(Row<const T> next, std::int64_t rows = 1) {
    scratch_.begin_row();
    next_row_ = next.data;
    next_size_ = next.size;
    ahead_ = next.size > 0 ? Ahead(next.data, rows * next.size * sizeof(T)) : Ahead();
  }

 private:
  /// A multiply-add takes four or five cycles, and two begin in each: ten would do, of sixteen
  /// registers two hold the operands that all share.
  static constexpr int chains = 12;

  template <class Next>
  Row<const Next> next_to_sum() const {
    return {static_cast<const Next*>(next_row_), next_size_};
  }
  void keep_begun(const void* row, float sum) {
    if (row == nullptr) return;
    begun_row_ = row;
    begun_ = sum;
  }

  /// Bytes of an element of the first of some rows.
  template <class T, class...>
  static constexpr std::int64_t first_size = sizeof(T);

  /// Stands for the function of a sum that is not wanted.
  struct Nothing {
    Pack operator()(Pack) const;
  };

  /// Returns the sum() of g over `next`.
  template <bool streaming, bool keeping, class U, class Next, class G, class F, class... T>
  float map_with(Row<U> y, Row<U> kept, Row<const Next> next, G g, F f, Row<T>... x) {
    constexpr bool summing = !std::is_same_v<G, Nothing>;
    RunningSum sum(next, g);
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
    const auto step = [&] {
      const PackPair result = pair(load_pair<order>(x.data + i)...);
      store_pair<order, streaming>(y.data + i, result);
      if constexpr (keeping) store_pair<order, false>(kept.data + i, result);
      i += pair_elements;
    };
    Ahead ahead = ahead_;
    constexpr std::int64_t block = std::max(2 * pair_elements, sum_lanes);
    while (i + block <= y.size) {
      ahead.template prefetch<block * first_size<T...>>();
      if constexpr (summing) {
        for (int k = 0; k < block; k += sum_lanes) sum.step();
      }
      for (int k = 0; k < block; k += pair_elements) step();
    }
    ahead_ = ahead;
    while (i + pair_elements <= y.size) step();
    for (; i < y.size; ++i) one();
    if constexpr (summing) return sum.finish();
    return 0;
  }

  template <bool streaming, class U, class F, class T>
  void map_chains_with(Row<U> y, F f, Row<T> x) {
    constexpr std::int64_t block = chains * pack_lanes;
    Ahead ahead = ahead_;
    std::int64_t i = 0;
    for (; i + block <= y.size; i += block) {
      ahead.template prefetch<block * sizeof(T)>();
      map_block<streaming>(y.data + i, f, x.data + i);
    }
    ahead_ = ahead;
    if (i == y.size) return;
    std::remove_const_t<T> rest[block] = {};  // what is left, filled up
    U results[block];
    std::copy(x.data + i, x.data + x.size, rest);
    map_block<false>(results, f, rest);
    std::copy_n(results, y.size - i, y.data + i);
  }

  template <bool streaming, class U, class F, class T>
  static void map_block(U* y, F f, const T* x) {
    constexpr PairOrder order = pair_order<U, T>;
    Pack v[chains];
    for (int c = 0; c < chains; c += 2) {
      const PackPair pair = load_pair<order>(x + c * pack_lanes);
      v[c] = pair.first;
      v[c + 1] = pair.second;
    }
    f(v);
    for (int c = 0; c < chains; c += 2) {
      store_pair<order, streaming>(y + c * pack_lanes, {v[c], v[c + 1]});
    }
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
    Ahead ahead = ahead_;
    for (; p + pair_elements <= h; p += pair_elements) {
      ahead.template prefetch<2 * pair_elements * sizeof(T)>();
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
    ahead_ = ahead;
    for (; p < h; ++p) one();
  }

  ScratchSpace& scratch_;
  bool streaming_;
  Ahead ahead_;
  const void* next_row_ = nullptr;
  std::int64_t next_size_ = 0;
  const void* begun_row_ = nullptr;
  float begun_ = 0;
};

/// Runs kernels on the CPU's cores.
class Fast {
 public:
  explicit Fast(Stores stores = Stores::automatic)
      : stores_(stores), scratch_(omp_get_max_threads()) {}

  /// One kernel call over the rows of `in`, which become the rows of `out`:
  /// body(primitives, i) for every row i, rows shared out statically over the threads.
  template <class T, class U, class Body>
  void kernel(const char* name, Rows<const T> in, Rows<U> out, Body body) {
    blocks(name, in, out, 1, [&](FastRow& row, std::int64_t i, std::int64_t) { body(row, i); });
  }

  /// kernel() for bodies that work on several rows: body(primitives, begin, end) for each group of
  /// `rows_per_group` consecutive rows, the last one maybe smaller. Scratch is a group's.
  template <class T, class U, class Body>
  void groups(const char* name, Rows<const T> in, Rows<U> out, std::int64_t rows_per_group,
              Body body) {
    blocks(name, in, out, rows_per_group, body);
  }

  /// One kernel as a call for each block of `rows_per_block` consecutive rows, the last one maybe
  /// shorter: body(primitives, begin, end), blocks shared out as rows are. Scratch is a block's.
  template <class T, class U, class Body>
  void blocks(const char* /*name*/, Rows<const T> in, Rows<U> out, std::int64_t rows_per_block,
              Body body) {
    const std::int64_t m = in.rows();
    const std::int64_t grid = m / rows_per_block + (m % rows_per_block != 0);
    const std::int64_t in_row = in.cols * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t out_bytes = m * out.cols * static_cast<std::int64_t>(sizeof(U));
    const bool side_by_side = in.inner_stride == in.cols;
    const bool streaming = stores_ == Stores::streaming ||
                           (stores_ == Stores::automatic && out_bytes >= streaming_threshold);
#pragma omp parallel num_threads(static_cast<int>( \
        scratch_.size())) if (grid > 1 && m * in_row + out_bytes >= parallel_threshold)
    {
      ScratchSpace& scratch = scratch_[omp_get_thread_num()];
      FastRow row(scratch, streaming);
      const std::int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
      const std::int64_t last = std::min(m, grid * (thread + 1) / threads * rows_per_block);
      for (std::int64_t i = grid * thread / threads * rows_per_block; i < last;) {
        const std::int64_t end = std::min(last, i + rows_per_block);
        const std::int64_t next_rows = side_by_side ? std::min(last - end, rows_per_block) : 1;
        row.begin_row(end < last ? in.row(end) : Row<const T>(), next_rows);
        body(row, i, end);
        i = end;
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
