#include "ch02_roofline/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>

using namespace opbook;
using namespace opbook::ch02;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

namespace {

/// 100 GB/s and 1 TFLOP/s: balance point 10.
Machine small_machine() {
  Machine machine;
  machine.name = "Small";
  machine.bandwidth_gbs["copy"] = 100;
  machine.peak_tflops["fp32"] = 1;
  return machine;
}

/// What a machine measures that reaches these shares of its roofs, and whose two legs overlap but
/// for `corner` of the shorter one.
std::vector<ResultRow> sweep(Dtype dtype, double of_copy, double of_peak, double corner = 0) {
  std::vector<ResultRow> rows;
  for (const std::int64_t k : swept_steps(false)) {
    const std::int64_t n = swept_elements(1 << 27, k, dtype);
    ResultRow row;
    row.op = fmt::format("multiply_add_chain (k {})", k);
    row.shape = {n};
    row.dtype = name_of(dtype);
    row.plan = "fused";
    row.bytes = 2 * n * size_of(dtype);
    row.flops = 2 * k * n;
    const double memory_us = static_cast<double>(row.bytes) / 100e3 / of_copy;
    const double compute_us = static_cast<double>(row.flops) / 1e6 / of_peak;
    row.median_us = std::max(memory_us, compute_us) + corner * std::min(memory_us, compute_us);
    row.share_of_roof = of_copy;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

TEST_CASE("the sweep goes from 1 to 4096, by powers of two and half-way between", "[sweep]") {
  const std::vector<std::int64_t> quick = swept_steps(true), whole = swept_steps(false);
  CHECK(quick.front() == 1);
  CHECK(quick.back() == 4096);
  CHECK(quick.size() == 13);
  CHECK(whole.front() == 1);
  CHECK(whole.back() == 4096);
  CHECK(std::is_sorted(whole.begin(), whole.end()));
  CHECK(std::adjacent_find(whole.begin(), whole.end()) == whole.end());
  CHECK(std::includes(whole.begin(), whole.end(), quick.begin(), quick.end()));
}

TEST_CASE("long chains have fewer elements, so that none takes longer than k = 256", "[sweep]") {
  CHECK(swept_elements(1 << 20, 1, Dtype::float32) == 1 << 17);
  CHECK(swept_elements(1 << 20, 256, Dtype::bfloat16) == 1 << 18);
  CHECK(swept_elements(1 << 20, 4096, Dtype::bfloat16) == 1 << 14);
  CHECK(swept_elements(2, 4096, Dtype::float32) == 1);
}

TEST_CASE("a machine that reaches both roofs bends at its balance point", "[sweep]") {
  for (const Dtype dtype : dtypes) {
    const std::vector<Bend> bends = find_bends(sweep(dtype, 1, 1), small_machine());
    REQUIRE(bends.size() == 1);
    CHECK(bends[0].dtype == name_of(dtype));
    CHECK_THAT(bends[0].measured, WithinRel(10.0, 1e-9));
    CHECK(bends[0].predicted == 10);
    CHECK(bends[0].agrees());
    CHECK_THAT(bends[0].memory_share, WithinRel(1.0, 1e-9));
    CHECK_THAT(bends[0].compute_share, WithinRel(1.0, 1e-9));
    CHECK_THAT(render_bends(bends, small_machine()), ContainsSubstring("agrees within 15 %"));
  }
}

TEST_CASE("a machine that has slowed down since its roof was measured is told by its copies",
          "[sweep]") {
  std::vector<ResultRow> rows = sweep(Dtype::float32, 0.5, 1);
  for (ResultRow& row : rows) row.share_of_roof = 1;  // as fast as the copies beside it
  const std::vector<Bend> bends = find_bends(rows, small_machine());
  REQUIRE(bends.size() == 1);
  CHECK_THAT(bends[0].apart(), WithinRel(1.0, 1e-9));
  CHECK_THAT(bends[0].memory_share, WithinRel(0.5, 1e-9));
  CHECK_THAT(bends[0].share_beside, WithinRel(1.0, 1e-9));
  CHECK_THAT(render_bends(bends, small_machine()),
             ContainsSubstring("at 50 % of the roof's copy") &&
                 ContainsSubstring("Copies beside the chain ran at 50 % of the roof's."));
}

TEST_CASE("a soft corner moves the bend by little", "[sweep]") {
  const std::vector<Bend> bends = find_bends(sweep(Dtype::float32, 1, 1, 0.3), small_machine());
  REQUIRE(bends.size() == 1);
  CHECK(std::fabs(bends[0].apart()) < 0.05);
}

TEST_CASE("falling short of a roof moves the bend, and the report says which", "[sweep]") {
  const std::vector<Bend> right = find_bends(sweep(Dtype::bfloat16, 0.7, 1), small_machine());
  REQUIRE(right.size() == 1);
  CHECK_THAT(right[0].measured, WithinRel(10 / 0.7, 1e-9));
  CHECK_FALSE(right[0].agrees());
  CHECK_THAT(render_bends(right, small_machine()),
             ContainsSubstring("does not agree") &&
                 ContainsSubstring("+43 % from the balance point: left of it the chain moves its "
                                   "bytes at 70 % of the roof's copy, right of it it computes at "
                                   "100 % of the peak.\n"));
  const std::vector<Bend> left = find_bends(sweep(Dtype::bfloat16, 1, 0.8), small_machine());
  CHECK_THAT(left[0].measured, WithinRel(8.0, 1e-9));
  CHECK_FALSE(left[0].agrees());
  CHECK(find_bends(sweep(Dtype::float32, 0.9, 1), small_machine())[0].agrees());
  CHECK_FALSE(find_bends(sweep(Dtype::float32, 0.86, 1), small_machine())[0].agrees());
}

TEST_CASE("every dtype has its own bend, and unfused rows none", "[sweep]") {
  std::vector<ResultRow> rows = sweep(Dtype::float32, 1, 1);
  const std::vector<ResultRow> other = sweep(Dtype::bfloat16, 0.9, 1);
  rows.insert(rows.end(), other.begin(), other.end());
  ResultRow unfused = rows.front();
  unfused.plan = "unfused";
  unfused.median_us *= 100;
  rows.push_back(unfused);
  ResultRow stranger = rows.front();
  stranger.op = "rms_norm";
  stranger.median_us *= 100;
  rows.push_back(stranger);
  const std::vector<Bend> bends = find_bends(rows, small_machine());
  REQUIRE(bends.size() == 2);
  CHECK_THAT(bends[0].measured, WithinRel(10.0, 1e-9));
  CHECK_THAT(bends[1].measured, WithinRel(10 / 0.9, 1e-9));
}

TEST_CASE("rows on one side alone have no bend", "[sweep]") {
  std::vector<ResultRow> rows = sweep(Dtype::float32, 1, 1);
  rows.resize(3);
  CHECK(find_bends(rows, small_machine()).empty());
  CHECK(find_bends({}, small_machine()).empty());
  CHECK_THAT(render_bends({}, small_machine()), ContainsSubstring("No dtype has rows"));
}
