#pragma once

// Replay: the ledger's figures found by doing. The metered backend runs the very source of a CPU
// operator, scalar and in order, and counts what it touches: distinct bytes read and written per
// kernel call, FLOPs, and bytes that had to be fetched again.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/cache_model.hpp"
#include "common/counted.hpp"
#include "common/fast.hpp"
#include "common/rows.hpp"

namespace opbook {

/// What one kernel call did to one tensor, in bytes.
struct TensorCount {
  std::string name;
  std::int64_t read_bytes = 0;   ///< distinct bytes read
  std::int64_t write_bytes = 0;  ///< distinct bytes written
  /// Whole 64-byte lines that were read before in this call, fell out of a 256 KiB LRU cache that
  /// was cold when the call began, and were read again.
  std::int64_t refetched_bytes = 0;
};

/// What one kernel did: its one call, or the sum over its calls.
struct KernelCount {
  std::string name;
  std::vector<TensorCount> tensors;  ///< those it touched, in the order they were declared
  std::int64_t calls = 0;
  std::int64_t flops = 0;
  std::int64_t on_chip_bytes = 0;  ///< largest scratch of a row: registers and shared memory

  std::int64_t read_bytes() const;
  std::int64_t write_bytes() const;
  std::int64_t refetched_bytes() const;
};

/// Keeps the account of one replay. Memory must be declared before it is touched: a stray access is
/// a CheckFailed, not a silent zero.
class Meter {
 public:
  /// Every line touched is also told to `curve`, if there is one; it outlives the meter.
  explicit Meter(CacheCurve* curve = nullptr) : curve_(curve) {}

  /// Declares `bytes` bytes at `first` as a tensor; a strided one is declared with its gaps, of
  /// which only what is touched counts. Throws ArgumentError where two tensors overlap, unless they
  /// are the same memory: y written over x goes by the first name.
  void declare(std::string name, const void* first, std::int64_t bytes);

  void begin_kernel(std::string name);
  void end_kernel();
  /// Ends one of several calls of the kernel: what the next one touches counts anew.
  void end_call();

  void read(const void* from, std::int64_t bytes);
  void write(const void* to, std::int64_t bytes);
  /// Scratch of the row at work, which costs no traffic.
  void on_chip(const void* first, std::int64_t bytes);
  void leave_row();  ///< forgets the row's scratch

  const std::vector<KernelCount>& kernels() const { return kernels_; }

 private:
  struct Span {
    std::string name;
    const std::byte* first;
    std::int64_t bytes;
    std::int64_t first_line, end_line;  // every tensor begins a line of its own
  };
  struct OnChip {
    const std::byte* first;
    std::int64_t bytes;
  };
  /// visit(tensor, line, touched bytes of the line as bits) for each line of a declared tensor.
  template <class Visit>
  void for_lines(const void* at, std::int64_t bytes, Visit visit);
  /// Before bits of the line are set.
  void touch(std::size_t tensor, std::int64_t line);

  CacheCurve* curve_;
  std::vector<Span> spans_;
  std::vector<OnChip> scratch_;
  struct Touched {
    std::size_t tensor;
    std::int64_t line;
  };
  std::vector<std::uint64_t> read_bits_, written_bits_;  // one bit a byte, one word a line
  std::vector<Touched> touched_;                         // lines of this call, each once
  std::vector<TensorCount> counts_;                      // of this kernel, by tensor
  LruCache cache_{256 * 1024 / 64};
  std::vector<KernelCount> kernels_;
  std::int64_t flops_before_ = 0;
};

/// The row primitives, counted. Same order of additions as FastRow's, so the same bits come out.
class MeteredRow {
 public:
  explicit MeteredRow(Meter& meter) : meter_(meter) {}

  template <class T, class F>
  Counted sum(Row<const T> x, F f) {
    std::array<float, sum_lanes> lanes{};
    in_chunks(x.size, [&](std::int64_t begin, std::int64_t end) {
      read(x, begin, end);
      for (std::int64_t i = begin; i < end; ++i) {
        float& lane = lanes[i % sum_lanes];
        lane = (Counted(lane) + f(Counted(to_float(x.data[i])))).value;
      }
    });
    for (int half = sum_lanes / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    return lanes[0];
  }

  /// On this backend never begun.
  template <class T, class F>
  Counted sum_begun(Row<const T> x, F f) {
    return sum(x, f);
  }

  template <class T>
  Counted max_abs(Row<const T> x) {
    Counted largest = 0.0f;
    in_chunks(x.size, [&](std::int64_t begin, std::int64_t end) {
      read(x, begin, end);
      for (std::int64_t i = begin; i < end; ++i) {
        largest = max(largest, abs(Counted(to_float(x.data[i]))));
      }
    });
    return largest;
  }

  template <class U, class F, class... T>
  void map(Row<U> y, F f, Row<T>... x) {
    in_chunks(y.size, [&](std::int64_t begin, std::int64_t end) {
      (read(x, begin, end), ...);
      for (std::int64_t i = begin; i < end; ++i) {
        const Counted result = f(Counted(to_float(x.data[i]))...);
        y.data[i] = from_float<U>(result.value);
      }
      write(y, begin, end);
    });
  }

  template <class U, class F, class T>
  void map_chains(Row<U> y, F f, Row<T> x) {
    map(
        y,
        [=](Counted v) {
          Counted alone[1] = {v};
          f(alone);
          return alone[0];
        },
        x);
  }

  template <class Next, class U, class F, class G, class... T>
  void map_and_sum_next(Row<U> y, F f, G /*g*/, Row<T>... x) {
    map(y, f, x...);
  }

  template <class U, class F, class... T>
  void map_keeping(Scratch<U> kept, Row<U> y, F f, Row<T>... x) {
    in_chunks(y.size, [&](std::int64_t begin, std::int64_t end) {
      map(kept.slice(begin, end - begin), f, x.slice(begin, end - begin)...);
      for (std::int64_t i = begin; i < end; ++i) y.data[i] = kept.data[i];
      write(y, begin, end);
    });
  }

  template <class U, class F, class T, class... Table>
  void map_pairs(Row<U> y, F f, Row<T> x, Row<Table>... table) {
    const std::int64_t h = y.size / 2;
    in_chunks(h, [&](std::int64_t begin, std::int64_t end) {
      read(x, begin, end);
      read(x, begin + h, end + h);
      (read(table, begin, end), ...);
      for (std::int64_t p = begin; p < end; ++p) {
        const auto turned = f(Counted(to_float(x.data[p])), Counted(to_float(x.data[p + h])),
                              Counted(to_float(table.data[p]))...);
        y.data[p] = from_float<U>(turned.low.value);
        y.data[p + h] = from_float<U>(turned.high.value);
      }
      write(y, begin, end);
      write(y, begin + h, end + h);
    });
  }

  /// One division an element, however the fast backend goes about it.
  template <class T>
  void quantise(Row<float8_e4m3fn> q, Row<const T> x, Counted scale) {
    map(q, [=](auto v) { return v / scale; }, x);
  }

  template <class T>
  Scratch<T> scratch(std::int64_t size) {
    const Scratch<T> row{scratch_.row<T>(size)};
    meter_.on_chip(row.data, size * static_cast<std::int64_t>(sizeof(T)));
    return row;
  }
  void begin_row() {
    scratch_.begin_row();
    meter_.leave_row();
  }

  Counted load(Row<const float> x, std::int64_t i) {
    read(x, i, i + 1);
    return x.data[i];
  }
  void store(Row<float> y, std::int64_t i, Counted value) {
    y.data[i] = value.value;
    write(y, i, i + 1);
  }
  template <class Index>
  std::int64_t index(Row<const Index> x, std::int64_t i) {
    read(x, i, i + 1);
    return x.data[i];
  }

 private:
  // Accesses are reported sixteen elements at a time: at most a line, so that the cache model sees
  // the inputs of a map() interleaved as the hardware would.
  template <class Visit>
  static void in_chunks(std::int64_t size, Visit visit) {
    constexpr std::int64_t chunk = 16;
    for (std::int64_t begin = 0; begin < size; begin += chunk) {
      visit(begin, begin + chunk < size ? begin + chunk : size);
    }
  }
  template <class T>
  void read(Row<T> x, std::int64_t begin, std::int64_t end) {
    meter_.read(x.data + begin, (end - begin) * static_cast<std::int64_t>(sizeof(T)));
  }
  template <class T>
  void write(Row<T> y, std::int64_t begin, std::int64_t end) {
    meter_.write(y.data + begin, (end - begin) * static_cast<std::int64_t>(sizeof(T)));
  }

  Meter& meter_;
  ScratchSpace scratch_;
};

/// Runs kernels on a Meter: the counterpart of Fast.
class Metered {
 public:
  explicit Metered(Meter& meter) : meter_(meter) {}

  /// The same meter, with `after_row` called after each row of a kernel, which gets the input's row
  /// and the number of rows to come. It adds traffic to an operator that is right: how the tests of
  /// the tests know that traffic is noticed.
  using AfterRow =
      std::function<void(Meter&, const void* row, std::int64_t bytes, std::int64_t rows_left)>;
  Metered with(AfterRow after_row) const {
    Metered wasteful(meter_);
    wasteful.after_row_ = std::move(after_row);
    return wasteful;
  }

  template <class T, class U, class Body>
  void kernel(const char* name, Rows<const T> in, Rows<U> out, Body body) {
    groups(name, in, out, 1, [&](MeteredRow& row, std::int64_t i, std::int64_t) { body(row, i); });
  }

  template <class T, class U, class Body>
  void groups(const char* name, Rows<const T> in, Rows<U> /*out*/, std::int64_t rows_per_group,
              Body body) {
    in_turn(name, in, rows_per_group, body, [] {});
  }

  /// The counterpart of Fast::blocks(): each block is a call of its own.
  template <class T, class U, class Body>
  void blocks(const char* name, Rows<const T> in, Rows<U> /*out*/, std::int64_t rows_per_block,
              Body body) {
    in_turn(name, in, rows_per_block, body, [&] { meter_.end_call(); });
  }

 private:
  /// between() comes between one group of rows and the next.
  template <class T, class Body, class Between>
  void in_turn(const char* name, Rows<const T> in, std::int64_t rows_per_group, Body body,
               Between between) {
    meter_.begin_kernel(name);
    MeteredRow row(meter_);
    const std::int64_t row_bytes = in.cols * static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t begin = 0; begin < in.rows(); begin += rows_per_group) {
      const std::int64_t end = std::min(in.rows(), begin + rows_per_group);
      if (begin > 0) between();
      row.begin_row();
      body(row, begin, end);
      for (std::int64_t i = begin; after_row_ && i < end; ++i) {
        after_row_(meter_, in.row(i).data, row_bytes, in.rows() - 1 - i);
      }
    }
    meter_.leave_row();
    meter_.end_kernel();
  }

  Meter& meter_;
  AfterRow after_row_;
};

}  // namespace opbook
