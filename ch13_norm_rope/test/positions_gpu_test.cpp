// Positions that the tables do not have, on a CUDA device.

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <string>

#include "ch13_norm_rope/rms_norm_rope.hpp"
#include "ch13_norm_rope/test/operator_test.hpp"
#include "common/cuda/positions.hpp"
#include "common/test/mirror.hpp"
#include "common/test/require_gpu.hpp"

using namespace opbook;
using namespace opbook::ch13;

TEST_CASE("a position beyond the tables gives NaN in its row and in no other, on the GPU",
          "[gpu][sanitize]") {
  require_gpu();
  for (const std::int64_t n : {256, 250}) {  // held, and element by element
    const std::int64_t m = 4, half = 32;
    Array x = filled("x", Dtype::float32, {m, n}), w = filled("w", Dtype::float32, {n});
    Array cos = filled("cos", Dtype::float32, {3, half});
    Array sin = filled("sin", Dtype::float32, {3, half});
    Array positions("positions", Dtype::int64, {m}), y("y", Dtype::float32, {m, n});
    const std::int64_t picked[] = {2, 3, -1, 0};
    std::memcpy(positions.raw(), picked, sizeof picked);
    const Mirror device_x(x), device_w(w), device_cos(cos), device_sin(sin), device_y(y);
    const Mirror device_positions(positions);
    const Row<std::int64_t> rows = device_positions.row<std::int64_t>(positions);
    const RopeTables<float> tables{device_cos.rows<float>(cos), device_sin.rows<float>(sin),
                                   Row<const std::int64_t>(rows)};
    ch13::gpu::rms_norm_rope<float>(nullptr, device_x.rows<float>(x), device_w.row<float>(w),
                                    tables, device_y.rows<float>(y));
    device_y.fetch(y);
    for (std::int64_t i = 0; i < m; ++i) {
      const bool there = picked[i] >= 0 && picked[i] < 3;
      for (std::int64_t j = 0; j < n; ++j) {
        const bool turns = j >= n - 2 * half;
        INFO("n " << n << " row " << i << " column " << j);
        REQUIRE(std::isnan(y.value(i * n + j)) == (turns && !there));
      }
    }
  }
}

TEST_CASE("who asks before has a position beyond the tables refused, on the GPU", "[gpu]") {
  require_gpu();
  const Array table = filled("cos", Dtype::float32, {3, 4});
  const Mirror device_table(table);
  for (const Dtype dtype : {Dtype::int32, Dtype::int64}) {
    Array positions("positions", dtype, {3});
    const auto set = [&](std::int64_t token, std::int64_t row) {
      if (dtype == Dtype::int32) {
        reinterpret_cast<std::int32_t*>(positions.raw())[token] = static_cast<std::int32_t>(row);
      } else {
        reinterpret_cast<std::int64_t*>(positions.raw())[token] = row;
      }
    };
    const auto refusal = [&]() -> std::string {
      const Mirror device(positions);
      RopeTables<float> tables{device_table.rows<float>(table), device_table.rows<float>(table)};
      if (dtype == Dtype::int32) {
        tables.positions = Row<const std::int32_t>(device.row<std::int32_t>(positions));
      } else {
        tables.positions = Row<const std::int64_t>(device.row<std::int64_t>(positions));
      }
      try {
        opbook::gpu::require_positions_within(nullptr, tables);
      } catch (const ArgumentError& error) {
        return error.what();
      }
      return "";
    };
    for (std::int64_t token = 0; token < 3; ++token) set(token, token);
    CHECK(refusal() == "");
    set(1, 3);
    CHECK(refusal() ==
          "positions: got 3 for token 1; allowed: 0 up to, not including, 3, the rows of cos");
    set(1, -1);
    CHECK(refusal() ==
          "positions: got -1 for token 1; allowed: 0 up to, not including, 3, the rows of cos");
  }
}
