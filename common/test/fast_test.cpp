#include "common/fast.hpp"

#include <omp.h>

#include <bit>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "common/array.hpp"
#include "common/random.hpp"
#include "common/replay.hpp"

using namespace opbook;

namespace {

template <class T>
Array random_array(const char* name, std::int64_t m, std::int64_t n, std::int64_t offset = 0) {
  Array array(name, dtype_of<T>, {m, n}, offset);
  fill_activation(array, 7);
  return array;
}

bool same_bits(const Array& a, const Array& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

/// Something of every primitive.
template <class T, class Backend>
void exercise_primitives(Backend& backend, Array& x, Array& y) {
  const Rows<const T> in = x.rows<T>();
  const Rows<T> out = y.rows<T>();
  backend.kernel("everything", in, out, [=](auto& row, std::int64_t i) {
    const auto held = row.template scratch<float>(in.cols);
    const auto total = row.sum(in.row(i), [](auto v) { return v * 0.5f; });
    const auto largest = row.max_abs(in.row(i));
    const auto kept = row.template scratch<T>(in.cols);
    row.map(held, [=](auto v) { return clamp(v / largest, -0.9f, 0.9f) + total; }, in.row(i));
    row.map_keeping(
        kept, out.row(i), [](auto v, auto h) { return round_through<T>(v) - h; }, in.row(i),
        Row<const float>(held));
  });
}

template <class T>
void declare_both(Meter& meter, const Array& x, const Array& y) {
  meter.declare("x", x.raw(), x.bytes());
  meter.declare("y", y.raw(), y.bytes());
}

constexpr std::int64_t ragged_columns[] = {1,  2,  3,  7,  15, 16,  17, 31,
                                           32, 33, 63, 64, 65, 127, 769};

}  // namespace

TEMPLATE_TEST_CASE("both backends, all ways to store and any alignment give the same bits", "",
                   float, float16, bfloat16) {
  for (const std::int64_t n : ragged_columns) {
    for (const std::int64_t offset : {0, 1, 3}) {
      Array x = random_array<TestType>("x", 5, n, offset);
      Array expected("expected", dtype_of<TestType>, {5, n});
      Meter meter;
      declare_both<TestType>(meter, x, expected);
      Metered metered(meter);
      exercise_primitives<TestType>(metered, x, expected);
      for (const Stores stores : {Stores::ordinary, Stores::streaming}) {
        Array y("y", dtype_of<TestType>, {5, n}, offset);
        Fast fast(stores);
        exercise_primitives<TestType>(fast, x, y);
        INFO("n = " << n << ", offset = " << offset);
        REQUIRE(same_bits(y, expected));
        REQUIRE(y.guards_intact());
      }
    }
  }
}

TEMPLATE_TEST_CASE("chains give the same bits on both backends, however many are left over", "",
                   float, float16, bfloat16) {
  const auto chain = [](auto& values) {
    for (int step = 0; step < 5; ++step) {
      for (auto& v : values) v = fma(v, std::remove_reference_t<decltype(v)>(-0.75f), 0.5f);
    }
  };
  const auto run = [&](auto& backend, const Array& x, Array& y) {
    const Rows<const TestType> in = x.rows<TestType>();
    const Rows<TestType> out = y.rows<TestType>();
    backend.kernel("chains", in, out, [=](auto& row, std::int64_t i) {
      row.map_chains(out.row(i), chain, in.row(i));
    });
  };
  for (const std::int64_t n : {1, 3, 47, 48, 95, 96, 97, 191, 192, 193, 769}) {
    for (const std::int64_t offset : {0, 1, 3}) {
      const Array x = random_array<TestType>("x", 3, n, offset);
      Array expected("expected", dtype_of<TestType>, {3, n});
      Meter meter;
      declare_both<TestType>(meter, x, expected);
      Metered metered(meter);
      run(metered, x, expected);
      CHECK(meter.kernels()[0].flops == 3 * n * 5 * 2);
      CHECK(meter.kernels()[0].read_bytes() == x.bytes());
      CHECK(meter.kernels()[0].write_bytes() == x.bytes());
      for (const Stores stores : {Stores::ordinary, Stores::streaming}) {
        Array y("y", dtype_of<TestType>, {3, n}, offset);
        Fast fast(stores);
        run(fast, x, y);
        INFO("n = " << n << ", offset = " << offset);
        REQUIRE(same_bits(y, expected));
        REQUIRE(y.guards_intact());
      }
    }
  }
}

TEST_CASE("a vector in pieces is the whole vector, its last piece cut") {
  float values[10] = {};
  const Row<float> vector{values, 10};
  CHECK(in_pieces(vector, 4).rows() == 3);
  CHECK(piece_of(vector, 4, 0).data == values);
  CHECK(piece_of(vector, 4, 1).size == 4);
  CHECK(piece_of(vector, 4, 2).data == values + 8);
  CHECK(piece_of(vector, 4, 2).size == 2);
  CHECK(in_pieces(vector, 5).rows() == 2);
  CHECK(in_pieces(Row<float>(), 4).rows() == 0);
}

TEST_CASE("results do not depend on the number of threads") {
  Array x = random_array<bfloat16>("x", 301, 1000);
  Array one("y", Dtype::bfloat16, {301, 1000});
  Array many("y", Dtype::bfloat16, {301, 1000});
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  Fast alone;
  exercise_primitives<bfloat16>(alone, x, one);
  omp_set_num_threads(4);
  Fast four;
  exercise_primitives<bfloat16>(four, x, many);
  omp_set_num_threads(threads);
  CHECK(same_bits(one, many));
}

TEMPLATE_TEST_CASE("what is kept in scratch is what is written out", "", float, float16, bfloat16) {
  for (const std::int64_t n : ragged_columns) {
    const Array x = random_array<TestType>("x", 1, n);
    Array y("y", dtype_of<TestType>, {1, n}, 1);
    for (const bool streaming : {false, true}) {
      ScratchSpace scratch;
      FastRow row(scratch, streaming);
      const auto kept = row.template scratch<TestType>(n);
      row.map_keeping(kept, y.row<TestType>(), [](auto v) { return v * 0.7f; }, x.row<TestType>());
      CHECK(std::memcmp(kept.data, y.raw(), y.bytes()) == 0);
      CHECK(y.guards_intact());
      for (std::int64_t i = 0; i < n; ++i) {
        const float expected = static_cast<float>(x.value(i)) * 0.7f;
        REQUIRE(y.value(i) == to_float(from_float<TestType>(expected)));
      }
    }
  }
}

namespace {

/// A sum of every row, by way of the row before it, and a map that it goes into.
template <class T, class Backend>
void sum_ahead(Backend& backend, Rows<const T> in, Rows<T> out) {
  backend.kernel("sums begun", in, out, [=](auto& row, std::int64_t i) {
    const auto square = [](auto v) { return v * v; };
    const auto total = row.sum_begun(in.row(i), square);
    const auto add = [=](auto v) { return v + total; };
    // The sum is of the whole row, however little of it the map is given.
    const std::int64_t some = in.cols - in.cols / 4;
    row.template map_and_sum_next<T>(out.row(i).slice(0, some), add, square,
                                     in.row(i).slice(0, some));
    row.map(out.row(i).slice(some, in.cols - some), add, in.row(i).slice(some, in.cols - some));
  });
}

}  // namespace

TEMPLATE_TEST_CASE("a sum begun while the row before is mapped has the same bits", "", float,
                   float16, bfloat16) {
  const int threads = omp_get_max_threads();
  for (const std::int64_t n : {1, 31, 32, 65, 127, 769, 2048}) {
    Array x = random_array<TestType>("x", 301, n);
    Array expected("expected", dtype_of<TestType>, {301, n});
    Meter meter;
    declare_both<TestType>(meter, x, expected);
    Metered metered(meter);
    sum_ahead<TestType>(metered, x.rows<TestType>(), expected.rows<TestType>());
    for (const Stores stores : {Stores::ordinary, Stores::streaming}) {
      for (const int count : {1, 4}) {
        omp_set_num_threads(count);
        Fast fast(stores);
        Array y("y", dtype_of<TestType>, {301, n}, 1);
        sum_ahead<TestType>(fast, x.rows<TestType>(), y.rows<TestType>());
        INFO("n = " << n << ", threads = " << count);
        CHECK(same_bits(y, expected));
        CHECK(y.guards_intact());
        // The same in place: a row must be summed before it is overwritten, and by its own thread.
        Array both("x", dtype_of<TestType>, {301, n});
        std::memcpy(both.raw(), x.raw(), x.bytes());
        sum_ahead<TestType>(fast, both.rows<TestType>(), both.rows<TestType>());
        CHECK(same_bits(both, expected));
      }
    }
  }
  omp_set_num_threads(threads);
}

TEST_CASE("a row that is repeated by stride 0 has its sum begun like any other") {
  const Array x = random_array<float>("x", 1, 100);
  const Rows<const float> repeated = strided_rows(x.data<float>(), 5, 100, 0);
  Array y("y", Dtype::float32, {5, 100});
  Fast fast;
  sum_ahead<float>(fast, repeated, y.rows<float>());
  for (std::int64_t i = 1; i < 5; ++i) {
    CHECK(std::memcmp(y.rows<float>().row(i).data, y.raw(), 400) == 0);
  }
}

TEST_CASE("a sum takes element i into partial sum i mod 32 and folds the sums in halves") {
  // 2^24 swallows a 1 added to it: which of the ones survive tells the order.
  std::vector<float> x(70, 1.0f);
  x[0] = 0x1p24f;
  float lanes[32] = {};
  for (int i = 0; i < 70; ++i) lanes[i % 32] += x[i];
  for (int half = 16; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  ScratchSpace scratch;
  FastRow row(scratch, false);
  CHECK(row.sum(Row<const float>{x.data(), 70}, [](auto v) { return v; }) == lanes[0]);
  float one_by_one = 0;
  for (const float value : x) one_by_one += value;
  CHECK(lanes[0] != one_by_one);
}

TEST_CASE("the largest magnitude survives in every place and NaN hides in none") {
  ScratchSpace scratch;
  FastRow row(scratch, false);
  constexpr std::int64_t n = 133;
  for (std::int64_t place = 0; place < n; ++place) {
    std::vector<float> x(n, 0.25f);
    x[place] = -3.0f;
    REQUIRE(row.max_abs(Row<const float>{x.data(), n}) == 3.0f);
    x[place] = std::numeric_limits<float>::quiet_NaN();
    REQUIRE(std::isnan(row.max_abs(Row<const float>{x.data(), n})));
  }
  CHECK(row.max_abs(Row<const float>{nullptr, 0}) == 0.0f);
}

TEMPLATE_TEST_CASE("packs convert every 16-bit pattern as the scalar conversions do", "", float16,
                   bfloat16) {
  std::vector<TestType> x(65536), y(65536);
  for (int i = 0; i < 65536; ++i) x[i] = TestType{static_cast<std::uint16_t>(i)};
  ScratchSpace scratch;
  FastRow row(scratch, false);
  row.map(
      Row<TestType>{y.data(), 65536}, [](auto v) { return v; },
      Row<const TestType>{x.data(), 65536});
  for (int i = 0; i < 65536; ++i) REQUIRE(y[i] == from_float<TestType>(to_float(x[i])));
}

TEMPLATE_TEST_CASE("packs round float32 as the scalar conversions do", "", float16, bfloat16,
                   float8_e4m3fn) {
  // A stride that is odd meets every sign, exponent and kind of mantissa.
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 65521) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  const std::int64_t n = static_cast<std::int64_t>(x.size());
  std::vector<TestType> y(n);
  ScratchSpace scratch;
  FastRow row(scratch, false);
  row.map(Row<TestType>{y.data(), n}, [](auto v) { return v; }, Row<const float>{x.data(), n});
  for (std::int64_t i = 0; i < n; ++i) {
    INFO("bits " << std::bit_cast<std::uint32_t>(x[i]));
    REQUIRE(y[i] == from_float<TestType>(x[i]));
  }
}

TEMPLATE_TEST_CASE("one NaN among numbers becomes canonical and spares its neighbours", "", float16,
                   bfloat16) {
  constexpr std::int64_t n = 67;
  ScratchSpace scratch;
  for (const bool streaming : {false, true}) {
    FastRow row(scratch, streaming);
    for (const std::uint32_t nan : {0x7F800001u, 0x7FFFFFFFu, 0xFFC00000u, 0xFF800001u}) {
      for (std::int64_t place = 0; place < n; ++place) {
        std::vector<float> x(n, 0.7f);
        x[place] = std::bit_cast<float>(nan);
        Array narrow("y", dtype_of<TestType>, {1, n});
        row.map(narrow.row<TestType>(), [](auto v) { return v; }, Row<const float>{x.data(), n});
        Array scaled("y", dtype_of<TestType>, {1, n});
        row.map(
            scaled.row<TestType>(), [](auto v) { return v * 1.0f; },
            Row<const TestType>(narrow.row<TestType>()));
        for (std::int64_t i = 0; i < n; ++i) {
          const TestType expected = from_float<TestType>(x[i]);
          REQUIRE(narrow.row<TestType>().data[i] == expected);
          REQUIRE(scaled.row<TestType>().data[i] == expected);
        }
      }
    }
  }
}

TEST_CASE("bfloat16 rounds to e4m3 in even and odd places alike") {
  std::vector<bfloat16> x(65536);
  for (int i = 0; i < 65536; ++i) x[i] = bfloat16{static_cast<std::uint16_t>(i * 40503u)};
  std::vector<float8_e4m3fn> y(65536);
  ScratchSpace scratch;
  FastRow row(scratch, false);
  row.map(
      Row<float8_e4m3fn>{y.data(), 65536}, [](auto v) { return v; },
      Row<const bfloat16>{x.data(), 65536});
  for (int i = 0; i < 65536; ++i) {
    REQUIRE(y[i] == from_float<float8_e4m3fn>(to_float(x[i])));
  }
}

TEST_CASE(
    "a map rounds float32 to e4m3 as one number is rounded, wherever it lies between two codes") {
  constexpr std::int64_t size = 65536;
  std::vector<float> x(size);
  std::vector<float8_e4m3fn> y(size);
  for (const std::uint32_t low :
       {0u, 1u, 0x7FFFu, 0x8000u, 0xFFFFu}) {  // a midpoint has low bits 0
    for (std::uint32_t high = 0; high < size; ++high)
      x[high] = std::bit_cast<float>(high << 16 | low);
    Fast fast;
    fast.kernel("round", contiguous_rows<const float>(x.data(), 1, size),
                contiguous_rows(y.data(), 1, size), [&](auto& row, std::int64_t) {
                  row.map(
                      Row<float8_e4m3fn>{y.data(), size}, [](auto v) { return v; },
                      Row<const float>{x.data(), size});
                });
    for (std::int64_t i = 0; i < size; ++i) REQUIRE(y[i] == from_float<float8_e4m3fn>(x[i]));
  }
}

TEST_CASE("blocks share all rows out, each once, whatever their size and the threads") {
  const Array x = random_array<float>("x", 1001, 64);
  for (const std::int64_t size : {1, 2, 7, 64, 1000, 1001, 5000}) {
    for (const int threads : {1, 3, 8}) {
      const int before = omp_get_max_threads();
      omp_set_num_threads(threads);
      Array y("y", Dtype::float32, {1001, 64});
      std::vector<int> visits(1001);
      Fast fast;
      fast.blocks("copy", x.rows<float>(), y.rows<float>(), size,
                  [&](auto& row, std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      ++visits[i];
                      row.map(
                          y.rows<float>().row(i), [](auto v) { return v; }, x.rows<float>().row(i));
                    }
                  });
      omp_set_num_threads(before);
      CHECK(same_bits(x, y));
      CHECK(visits == std::vector<int>(1001, 1));
    }
  }
}
