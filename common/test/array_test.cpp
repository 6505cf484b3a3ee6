#include "common/array.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

using namespace opbook;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

constexpr Dtype all_dtypes[] = {Dtype::float32,       Dtype::float16, Dtype::bfloat16,
                                Dtype::float8_e4m3fn, Dtype::int32,   Dtype::int64};

std::uintptr_t address(const Array& array) {
  return reinterpret_cast<std::uintptr_t>(array.raw());
}

}  // namespace

TEST_CASE("a new array is poisoned: NaN in each float format, -1 in the integers", "[array]") {
  for (const Dtype dtype : all_dtypes) {
    const Array array("x", dtype, {3, 5});
    REQUIRE(array.elements() == 15);
    REQUIRE(array.bytes() == 15 * size_of(dtype));
    for (std::int64_t i = 0; i < array.elements(); ++i) {
      if (is_float(dtype)) {
        REQUIRE(std::isnan(array.value(i)));
      } else {
        REQUIRE(array.value(i) == -1);
      }
    }
    REQUIRE(array.guards_intact());
  }
}

TEST_CASE("an array of several megabytes is poisoned to its last byte", "[array]") {
  Array array("x", Dtype::float8_e4m3fn, {(1 << 22) + 3});
  for (std::int64_t i = 0; i < array.elements(); ++i) array.data<float8_e4m3fn>()[i] = {0};
  array.poison();
  std::int64_t poisoned = 0;
  for (std::int64_t i = 0; i < array.bytes(); ++i) poisoned += array.raw()[i] == std::byte{0xFF};
  REQUIRE(poisoned == array.bytes());
  REQUIRE(array.guards_intact());
}

TEST_CASE("one byte written next to an array damages its guards", "[array]") {
  for (const std::int64_t offset : {0, 1, 7}) {
    for (const std::int64_t size : {0, 1, 6}) {
      Array array("x", Dtype::float16, {size}, offset);
      std::byte* const first = array.raw();
      const std::int64_t bytes = array.bytes();
      for (const std::int64_t outside :
           {std::int64_t{-1}, bytes, std::int64_t{-4096}, bytes + 4095}) {
        const std::byte before = first[outside];
        first[outside] = std::byte{0xFF};
        REQUIRE_FALSE(array.guards_intact());
        first[outside] = before;
        REQUIRE(array.guards_intact());
      }
      for (std::int64_t inside = 0; inside < bytes; ++inside) first[inside] = std::byte{0};
      REQUIRE(array.guards_intact());
    }
  }
}

TEST_CASE("the first element lies as far from a 64-byte boundary as asked", "[array]") {
  for (const Dtype dtype : all_dtypes) {
    for (const std::int64_t offset : {0, 1, 3, 64, 65}) {
      const Array array("x", dtype, {10}, offset);
      REQUIRE(address(array) % 64 == static_cast<std::uintptr_t>(offset * size_of(dtype) % 64));
    }
  }
}

TEST_CASE("rows are the product of the leading dimensions, columns the last", "[array]") {
  Array cube("x", Dtype::float32, {52, 7, 64});
  REQUIRE(cube.row_count() == 364);
  REQUIRE(cube.cols() == 64);
  REQUIRE(cube.rows<float>().row(363).data == cube.data<float>() + 363 * 64);
  REQUIRE(cube.row<float>().size == 52 * 7 * 64);

  const Array scalar("s", Dtype::float32, {});
  REQUIRE(scalar.elements() == 1);
  REQUIRE(scalar.row_count() == 1);
  REQUIRE(scalar.cols() == 1);

  const Array no_rows("x", Dtype::float32, {0, 8});
  REQUIRE(no_rows.elements() == 0);
  REQUIRE(no_rows.row_count() == 0);
  REQUIRE(no_rows.cols() == 8);

  const Array no_cols("x", Dtype::float32, {6, 0});
  REQUIRE(no_cols.elements() == 0);
  REQUIRE(no_cols.row_count() == 6);
  REQUIRE(no_cols.cols() == 0);
}

TEST_CASE("an array that holds nothing, made or moved from, has no elements", "[array]") {
  Array nothing;
  REQUIRE(nothing.elements() == 0);
  REQUIRE(nothing.bytes() == 0);
  REQUIRE(nothing.row_count() == 0);
  REQUIRE(nothing.guards_intact());
  nothing.poison();

  Array source("x", Dtype::float32, {4});
  source.data<float>()[3] = 2.5f;
  const Array target = std::move(source);
  REQUIRE(target.value(3) == 2.5);
  REQUIRE(target.guards_intact());
}

TEST_CASE("value() reads each dtype exactly", "[array]") {
  Array f32("x", Dtype::float32, {1});
  f32.data<float>()[0] = 0.1f;
  REQUIRE(f32.value(0) == static_cast<double>(0.1f));
  Array f16("x", Dtype::float16, {1});
  f16.data<float16>()[0] = {0x3555};
  REQUIRE(f16.value(0) == 1365.0 / 4096);
  Array bf16("x", Dtype::bfloat16, {1});
  bf16.data<bfloat16>()[0] = {0xC049};
  REQUIRE(bf16.value(0) == -3.140625);
  Array e4m3("x", Dtype::float8_e4m3fn, {1});
  e4m3.data<float8_e4m3fn>()[0] = {0x7E};
  REQUIRE(e4m3.value(0) == 448);
  Array i32("x", Dtype::int32, {1});
  i32.data<std::int32_t>()[0] = std::numeric_limits<std::int32_t>::min();
  REQUIRE(i32.value(0) == -2147483648.0);
  Array i64("x", Dtype::int64, {1});
  i64.data<std::int64_t>()[0] = std::int64_t{1} << 52;
  REQUIRE(i64.value(0) == 0x1p52);
}

TEST_CASE("value() refuses an index outside the array", "[array]") {
  const Array array("x", Dtype::float32, {2, 2});
  REQUIRE_THROWS_AS(array.value(-1), ArgumentError);
  REQUIRE_THROWS_MATCHES(array.value(4), ArgumentError,
                         MessageMatches(ContainsSubstring("x: got index 4")));
}

TEST_CASE("typed access refuses another dtype of the same size", "[array]") {
  Array array("x", Dtype::bfloat16, {2});
  REQUIRE_THROWS_MATCHES(array.data<float16>(), ArgumentError,
                         MessageMatches(ContainsSubstring("float16") && ContainsSubstring("x:")));
  REQUIRE_THROWS_AS(array.rows<float>(), ArgumentError);
  REQUIRE_NOTHROW(array.data<bfloat16>());
}

TEST_CASE("sizes that are negative, overflow or exceed the memory are refused", "[array]") {
  const std::int64_t huge = std::int64_t{1} << 40;
  const auto make = [](std::vector<std::int64_t> shape, std::int64_t offset = 0) {
    return Array("w", Dtype::float32, std::move(shape), offset);
  };
  REQUIRE_THROWS_MATCHES(make({4, -1}), ArgumentError,
                         MessageMatches(ContainsSubstring("w: got shape [4, -1]")));
  REQUIRE_THROWS_AS(make({0, -1}), ArgumentError);
  REQUIRE_THROWS_AS(make({huge, huge}), ArgumentError);
  REQUIRE_THROWS_AS(make({huge, huge, 0}), ArgumentError);
  REQUIRE_THROWS_AS(make({std::numeric_limits<std::int64_t>::max() / 4}), ArgumentError);
  REQUIRE_THROWS_AS(make({4}, -1), ArgumentError);
  REQUIRE_THROWS_AS(make({4}, std::numeric_limits<std::int64_t>::max()), ArgumentError);
  REQUIRE_THROWS_MATCHES(make({huge, 1024}), ArgumentError,
                         MessageMatches(ContainsSubstring("memory")));
}
