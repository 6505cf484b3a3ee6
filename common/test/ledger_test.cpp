#include "common/ledger.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/error.hpp"

namespace opbook {
namespace {

// y = x * w over [2, 3] in float16, with a float32 sum beside it; then a copy of y.
const Tensor x{"x", 6, Dtype::float16};
const Tensor w{"w", 3, Dtype::float16};
const Tensor y{"y", 6, Dtype::float16};
const Tensor sum{"sum", 2, Dtype::float32};
const Tensor q{"q", 6, Dtype::float8_e4m3fn};
const Plan two_kernels{{{"scale", {x, w}, {y, sum}, 12}, {"copy", {y}, {q}, 0}}};
const Plan one_kernel{{{"fused", {x, w}, {q}, 12}}};

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

}  // namespace

TEST_CASE("a tensor's bytes are its elements times the size of its dtype", "[ledger]") {
  CHECK(x.bytes() == 12);
  CHECK(sum.bytes() == 8);
  CHECK(q.bytes() == 6);
  CHECK(Tensor{"none", 0, Dtype::float32}.bytes() == 0);
}

TEST_CASE("a kernel reads its inputs once and writes its outputs once", "[ledger]") {
  const Kernel& kernel = two_kernels.kernels.front();
  CHECK(kernel.read_bytes() == 12 + 6);
  CHECK(kernel.write_bytes() == 12 + 8);
  CHECK(kernel.moved_bytes() == 38);
}

TEST_CASE("a plan's figures are sums over its kernels", "[ledger]") {
  CHECK(two_kernels.read_bytes() == 18 + 12);
  CHECK(two_kernels.write_bytes() == 20 + 6);
  CHECK(two_kernels.moved_bytes() == 56);
  CHECK(two_kernels.flops() == 12);
  CHECK(two_kernels.ai() == 12.0 / 56.0);
}

TEST_CASE("a case's ratio is unfused bytes over fused bytes", "[ledger]") {
  const Case both{"scale", two_kernels, one_kernel};
  CHECK(both.bytes_ratio() == 56.0 / 24.0);
}

TEST_CASE("figures beyond int64 are refused, not wrapped", "[ledger]") {
  const Tensor bytes{"bytes", largest, Dtype::float8_e4m3fn};
  CHECK(bytes.bytes() == largest);
  CHECK_THROWS_AS((Tensor{"t", largest, Dtype::float16}.bytes()), ArgumentError);
  CHECK(Kernel{"read", {bytes}, {}, 0}.moved_bytes() == largest);
  CHECK_THROWS_AS((Kernel{"read two", {bytes, bytes}, {}, 0}.read_bytes()), ArgumentError);
  CHECK_THROWS_AS((Kernel{"copy", {bytes}, {bytes}, 0}.moved_bytes()), ArgumentError);
  const Kernel busy{"busy", {}, {bytes}, largest};
  CHECK(Plan{{busy}}.flops() == largest);
  CHECK_THROWS_AS((Plan{{busy, busy}}.flops()), ArgumentError);
  CHECK_THROWS_AS((Plan{{busy, busy}}.write_bytes()), ArgumentError);
}

TEST_CASE("a plan's JSON has its sums, and its kernels in order", "[ledger]") {
  CHECK(to_json(two_kernels) == nlohmann::ordered_json::parse(R"({
    "kernels": 2, "moved_bytes": 56, "flops": 12, "ai": 0.21428571428571427,
    "ops": [
      {"name": "scale", "read_bytes": 18, "write_bytes": 20, "moved_bytes": 38, "flops": 12},
      {"name": "copy", "read_bytes": 12, "write_bytes": 6, "moved_bytes": 18, "flops": 0}
    ]})"));
}

}  // namespace opbook
