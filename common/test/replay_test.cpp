#include "common/replay.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <vector>

#include "common/error.hpp"

using namespace opbook;

namespace {

/// Small tensors whose traffic can be counted by hand.
struct Fixture {
  std::vector<float> x = std::vector<float>(6 * 4, 1.5f);
  std::vector<float> w = std::vector<float>(4, 2.0f);
  std::vector<float> y = std::vector<float>(6 * 4);
  Meter meter;
  Metered metered{meter};

  Fixture() {
    meter.declare("x", x.data(), 6 * 4 * 4);
    meter.declare("w", w.data(), 4 * 4);
    meter.declare("y", y.data(), 6 * 4 * 4);
  }
  Rows<const float> in() const { return contiguous_rows<const float>(x.data(), 6, 4); }
  Rows<float> out() { return contiguous_rows(y.data(), 6, 4); }
  Row<const float> weight() const { return {w.data(), 4}; }
};

}  // namespace

TEST_CASE("replay counts what a map over six rows of four reads, writes and computes") {
  Fixture f;
  f.metered.kernel("scale", f.in(), f.out(), [&](auto& row, std::int64_t i) {
    row.map(f.out().row(i), [](auto v, auto g) { return v * g + 1.0f; }, f.in().row(i), f.weight());
  });
  REQUIRE(f.meter.kernels().size() == 1);
  const KernelCount& count = f.meter.kernels().front();
  CHECK(count.name == "scale");
  CHECK(count.read_bytes() == 6 * 4 * 4 + 4 * 4);  // x once, w once although six rows read it
  CHECK(count.write_bytes() == 6 * 4 * 4);
  CHECK(count.flops == 6 * 4 * 2);
  CHECK(count.refetched_bytes() == 0);
  CHECK(count.on_chip_bytes == 0);
  CHECK(f.y == std::vector<float>(6 * 4, 4.0f));
}

TEST_CASE("blocks of one kernel are calls of their own, each charged what it touches") {
  Fixture f;
  f.metered.blocks("scale", f.in(), f.out(), 4,
                   [&](auto& row, std::int64_t begin, std::int64_t end) {
                     CHECK(end - begin == (begin == 0 ? 4 : 2));
                     for (std::int64_t i = begin; i < end; ++i) {
                       row.map(
                           f.out().row(i), [](auto v, auto g) { return v * g + 1.0f; },
                           f.in().row(i), f.weight());
                     }
                   });
  REQUIRE(f.meter.kernels().size() == 1);
  const KernelCount& count = f.meter.kernels().front();
  CHECK(count.calls == 2);
  CHECK(count.read_bytes() == 6 * 4 * 4 + 2 * 4 * 4);  // x once, w once a block
  CHECK(count.write_bytes() == 6 * 4 * 4);
  CHECK(count.flops == 6 * 4 * 2);
  CHECK(f.y == std::vector<float>(6 * 4, 4.0f));
  f.metered.kernel("again", f.in(), f.out(), [&](auto& row, std::int64_t i) {
    row.map(f.out().row(i), [](auto v) { return v; }, f.in().row(i));
  });
  CHECK(f.meter.kernels().back().read_bytes() == 6 * 4 * 4);  // nothing is left of the calls before
}

TEST_CASE("groups of rows are one call together, charged once what they share") {
  Fixture f;
  f.metered.groups("scale", f.in(), f.out(), 4,
                   [&](auto& row, std::int64_t begin, std::int64_t end) {
                     CHECK(end - begin == (begin == 0 ? 4 : 2));
                     row.template scratch<float>(4);
                     for (std::int64_t i = begin; i < end; ++i) {
                       row.map(
                           f.out().row(i), [](auto v, auto g) { return v * g + 1.0f; },
                           f.in().row(i), f.weight());
                     }
                   });
  const KernelCount& count = f.meter.kernels().front();
  CHECK(count.calls == 1);
  CHECK(count.read_bytes() == 6 * 4 * 4 + 4 * 4);  // x once, w once
  CHECK(count.flops == 6 * 4 * 2);
  CHECK(count.on_chip_bytes == 4 * 4);  // a group's scratch is free again after it
  CHECK(f.y == std::vector<float>(6 * 4, 4.0f));
}

TEST_CASE("replay names the tensors that a kernel touched, each with its own bytes") {
  Fixture f;
  f.metered.kernel("first rows", f.in(), f.out(), [&](auto& row, std::int64_t i) {
    if (i < 2) row.map(f.out().row(i), [](auto v) { return v; }, f.in().row(i));
  });
  const std::vector<TensorCount>& tensors = f.meter.kernels().front().tensors;
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].name == "x");
  CHECK(tensors[0].read_bytes == 2 * 4 * 4);
  CHECK(tensors[0].write_bytes == 0);
  CHECK(tensors[1].name == "y");
  CHECK(tensors[1].read_bytes == 0);
  CHECK(tensors[1].write_bytes == 2 * 4 * 4);
}

TEST_CASE("reading a row twice within the cache costs nothing twice") {
  Fixture f;
  f.metered.kernel("two passes", f.in(), f.out(), [&](auto& row, std::int64_t i) {
    const auto total = row.sum(f.in().row(i), [](auto v) { return v; });
    row.map(f.out().row(i), [=](auto v) { return v - total; }, f.in().row(i));
  });
  const KernelCount& count = f.meter.kernels().front();
  CHECK(count.read_bytes() == 6 * 4 * 4);
  CHECK(count.flops == 6 * (4 + 4));
  CHECK(count.refetched_bytes() == 0);
}

TEST_CASE("a second pass over more than the cache holds is fetched again, and shows") {
  constexpr std::int64_t rows = 300, cols = 1024;  // 1.2 MB of float32 against 256 KiB
  std::vector<float> x(rows * cols, 1.0f), sum(rows);
  Meter meter;
  meter.declare("x", x.data(), rows * cols * 4);
  meter.declare("sum", sum.data(), rows * 4);
  Metered metered(meter);
  const auto in = contiguous_rows<const float>(x.data(), rows, cols);
  const Row<float> out{sum.data(), rows};
  const auto all = contiguous_rows<const float>(x.data(), 1, rows * cols);
  metered.kernel("two passes over all", all, contiguous_rows(sum.data(), 1, rows),
                 [&](auto& row, std::int64_t) {
                   for (int pass = 0; pass < 2; ++pass) {
                     for (std::int64_t i = 0; i < rows; ++i) {
                       row.store(out, i, row.sum(in.row(i), [](auto v) { return v; }));
                     }
                   }
                 });
  const KernelCount& count = meter.kernels().front();
  CHECK(count.read_bytes() == rows * cols * 4);  // distinct: once
  CHECK(count.refetched_bytes() == rows * cols * 4);
}

TEST_CASE("every kernel call begins with a cold account") {
  Fixture f;
  for (int call = 0; call < 2; ++call) {
    f.metered.kernel("copy", f.in(), f.out(), [&](auto& row, std::int64_t i) {
      row.map(f.out().row(i), [](auto v) { return v; }, f.in().row(i));
    });
  }
  REQUIRE(f.meter.kernels().size() == 2);
  CHECK(f.meter.kernels()[0].read_bytes() == f.meter.kernels()[1].read_bytes());
  CHECK(f.meter.kernels()[1].refetched_bytes() == 0);
}

TEST_CASE("a row of scratch is on-chip memory and no traffic") {
  Fixture f;
  f.metered.kernel("through scratch", f.in(), f.out(), [&](auto& row, std::int64_t i) {
    const auto held = row.template scratch<float>(4);
    const auto also = row.template scratch<std::uint8_t>(3);
    row.map(held, [](auto v) { return v * 2.0f; }, f.in().row(i));
    row.map(f.out().row(i), [](auto v) { return v; }, Row<const float>(held));
    (void)also;
  });
  const KernelCount& count = f.meter.kernels().front();
  CHECK(count.read_bytes() == 6 * 4 * 4);
  CHECK(count.write_bytes() == 6 * 4 * 4);
  CHECK(count.on_chip_bytes == 4 * 4 + 3);
  CHECK(f.y == std::vector<float>(6 * 4, 3.0f));
}

TEST_CASE("what is kept beside an output is on-chip memory too, and computed once") {
  Fixture f;
  f.metered.kernel("kept", f.in(), f.out(), [&](auto& row, std::int64_t i) {
    const auto kept = row.template scratch<float>(4);
    row.map_keeping(kept, f.out().row(i), [](auto v) { return v + 1.0f; }, f.in().row(i));
    row.sum(Row<const float>(kept), [](auto v) { return v; });
  });
  const KernelCount& count = f.meter.kernels().front();
  CHECK(count.read_bytes() == 6 * 4 * 4);
  CHECK(count.write_bytes() == 6 * 4 * 4);
  CHECK(count.flops == 6 * 4 * 2);
  CHECK(count.on_chip_bytes == 4 * 4);
  CHECK(f.y == std::vector<float>(6 * 4, 2.5f));
}

TEST_CASE("a tensor written and read back is counted both ways") {
  Fixture f;
  std::vector<float> between(6 * 4);
  f.meter.declare("between", between.data(), 6 * 4 * 4);
  const auto rows = contiguous_rows(between.data(), 6, 4);
  f.metered.kernel("through memory", f.in(), f.out(), [&](auto& row, std::int64_t i) {
    row.map(rows.row(i), [](auto v) { return v; }, f.in().row(i));
    row.map(f.out().row(i), [](auto v) { return v; }, Row<const float>(rows.row(i)));
  });
  const KernelCount& count = f.meter.kernels().front();
  CHECK(count.read_bytes() == 2 * 6 * 4 * 4);
  CHECK(count.write_bytes() == 2 * 6 * 4 * 4);
}

TEST_CASE("a strided tensor is charged what is touched, not its gaps") {
  std::vector<bfloat16> x(5 * 10, bfloat16{0x3F80}), y(5 * 3);
  Meter meter;
  meter.declare("x", x.data(), 5 * 10 * 2);
  meter.declare("y", y.data(), 5 * 3 * 2);
  Metered metered(meter);
  const auto in = strided_rows<const bfloat16>(x.data(), 5, 3, 10);
  const auto out = contiguous_rows(y.data(), 5, 3);
  metered.kernel("copy", in, out, [&](auto& row, std::int64_t i) {
    row.map(out.row(i), [](auto v) { return v; }, in.row(i));
  });
  CHECK(meter.kernels().front().read_bytes() == 5 * 3 * 2);
}

TEST_CASE("memory that was not declared cannot be touched unseen") {
  Fixture f;
  std::vector<float> stray(4);
  const auto touch = [&] {
    f.metered.kernel("stray", f.in(), f.out(), [&](auto& row, std::int64_t i) {
      row.map(Row<float>{stray.data(), 4}, [](auto v) { return v; }, f.in().row(i));
    });
  };
  CHECK_THROWS_AS(touch(), CheckFailed);
}

TEST_CASE("an access that leaves its tensor is refused") {
  Fixture f;
  const auto touch = [&] {
    f.metered.kernel("beyond", f.in(), f.out(), [&](auto& row, std::int64_t) {
      row.sum(Row<const float>{f.w.data(), 5}, [](auto v) { return v; });
    });
  };
  CHECK_THROWS_AS(touch(), CheckFailed);
}

TEST_CASE("tensors that overlap in part are refused, y over x is one tensor") {
  Fixture f;
  CHECK_THROWS_AS(f.meter.declare("part of x", f.x.data() + 1, 8), ArgumentError);
  f.meter.declare("y over x", f.x.data(), 6 * 4 * 4);
  f.metered.kernel("read", f.in(), f.out(), [&](auto& row, std::int64_t i) {
    row.sum(f.in().row(i), [](auto v) { return v; });
  });
  CHECK(f.meter.kernels().front().tensors.front().name == "x");
}

TEST_CASE("counted arithmetic charges one for each operation and nothing for a selection") {
  const auto cost = [](auto f) {
    const std::int64_t before = counted_flops;
    f(Counted(3.0f), Counted(2.0f));
    return counted_flops - before;
  };
  CHECK(cost([](auto a, auto b) { return a + b; }) == 1);
  CHECK(cost([](auto a, auto b) { return a - b; }) == 1);
  CHECK(cost([](auto a, auto b) { return a * b; }) == 1);
  CHECK(cost([](auto a, auto b) { return a / b; }) == 1);
  CHECK(cost([](auto a, auto) { return -a; }) == 0);
  CHECK(cost([](auto a, auto) { return abs(a); }) == 1);
  CHECK(cost([](auto a, auto b) { return max(a, b); }) == 1);
  CHECK(cost([](auto a, auto) { return rsqrt(a); }) == 1);
  CHECK(cost([](auto a, auto) { return clamp(a, -1.0f, 1.0f); }) == 0);
  CHECK(cost([](auto a, auto) { return round_through<bfloat16>(a); }) == 0);
}
