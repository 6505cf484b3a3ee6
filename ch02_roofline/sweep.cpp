#include "ch02_roofline/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ch02_roofline/chapter.hpp"
#include "common/bench_problem.hpp"
#include "common/cuda/bench_on_device.hpp"
#include "common/cuda/device_tensors.hpp"
#include "common/error.hpp"
#include "common/timing.hpp"
#include "common/verify_problem.hpp"

namespace opbook::ch02 {
namespace {

constexpr std::int64_t last_unfused = 16;

TimingOptions sweep_timing(bool quick) {
  if (quick) return {.warmup = 1, .min_samples = 7, .max_samples = 15, .max_seconds = 0.3};
  return {.warmup = 1, .min_samples = 11, .max_samples = 61, .max_seconds = 1.0};
}

/// Correctness gates timing. Returns the largest error of the fused chain, in ulp.
double verified_ulp(Device device, Dtype dtype) {
  double worst = 0;
  for (const std::int64_t k : {1, 37, 1000}) {
    const Problem problem = chain_problem({.n = 5001, .k = k, .dtype = dtype});
    Tensors tensors(problem.tensors);
    fill_inputs(problem, tensors, 1);
    Fast fast(Stores::streaming);
    std::optional<opbook::gpu::DeviceTensors> on_device;
    if (device == Device::cuda) on_device.emplace(problem.tensors);
    const Run run = on_device ? run_on_device(problem, *on_device) : run_on_cpu(problem, fast);
    const Twin twin = on_device ? Twin::second_run : Twin::replay;
    for (const Finding& finding : verify_problem(problem, tensors, run, twin)) {
      if (!finding.pass) {
        throw CheckFailed(fmt::format("{} {} k {} {}: wrong, so not timed: {}", problem.op,
                                      name_of(dtype), k, finding.plan, finding.detail));
      }
      if (finding.plan == "fused") worst = std::max(worst, finding.worst_ulp);
    }
  }
  return worst;
}

std::vector<ResultRow> time_chain(Device device, const MachineInfo& machine, const Problem& problem,
                                  std::span<const PlanKind> plans, bool quick) {
  const TimingOptions options = sweep_timing(quick);
  if (device == Device::cuda) {
    return opbook::gpu::bench_on_device(problem, machine, options, plans);
  }
  Tensors tensors(problem.tensors);
  fill_inputs(problem, tensors, 1);
  const std::int64_t llc = std::max<std::int64_t>(machine.llc_bytes, 1 << 20);
  return bench_problem(problem, tensors, llc, options, plans, 2'000'000);
}

/// Bytes that the fused chain moves: of a GPU enough for a launch not to count.
std::int64_t swept_bytes(Device device, const MachineInfo& machine) {
  if (device == Device::cuda) return std::min<std::int64_t>(1 << 30, machine.memory_bytes / 16);
  return cold_working_set_bytes(std::max<std::int64_t>(machine.llc_bytes, 1 << 20),
                                machine.memory_bytes);
}

double median_of(std::vector<double> values) {
  return bounded_median(std::move(values)).median;
}

/// One fused row of a sweep, by the element.
struct Point {
  double k;
  double us;
  const ResultRow* row;
};

std::vector<Point> points_of(std::span<const ResultRow> rows, std::string_view dtype) {
  std::vector<Point> points;
  for (const ResultRow& row : rows) {
    if (row.dtype != dtype || row.plan != "fused" || row.shape.size() != 1) continue;
    if (!row.op.starts_with("multiply_add_chain") || !(row.median_us > 0)) continue;
    const double n = static_cast<double>(row.shape[0]);
    points.push_back({static_cast<double>(row.flops) / (2 * n), row.median_us / n, &row});
  }
  std::sort(points.begin(), points.end(),
            [](const Point& left, const Point& right) { return left.k < right.k; });
  return points;
}

std::optional<Bend> find_bend(std::span<const Point> points, const Machine& machine) {
  if (points.size() < 2) return std::nullopt;
  const double element_bytes = static_cast<double>(points[0].row->bytes) /
                               (2 * static_cast<double>(points[0].row->shape[0]));
  // From the two ends, then again from all that lies well to the left and right of what they say.
  double bend = points.front().us / (points.back().us / points.back().k);
  Bend found;
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<double> memory_us, compute_us, of_copy, of_copy_beside, of_peak;
    for (const Point& point : points) {
      if (point.k <= bend / 4) {
        memory_us.push_back(point.us);
        const double gb_per_s = static_cast<double>(point.row->bytes) / point.row->median_us / 1e3;
        of_copy.push_back(gb_per_s / machine.bandwidth_for("copy"));
        of_copy_beside.push_back(point.row->share_of_roof);
      }
      if (point.k >= bend * 4) {
        compute_us.push_back(point.us / point.k);
        of_peak.push_back(2 * point.k / point.us / (machine.peak_for("fp32") * 1e6));
      }
    }
    if (memory_us.empty() || compute_us.empty()) return std::nullopt;
    bend = median_of(memory_us) / median_of(compute_us);
    found.memory_share = median_of(of_copy);
    found.share_beside = median_of(of_copy_beside);
    found.compute_share = median_of(of_peak);
    found.memory_rows = static_cast<int>(memory_us.size());
    found.compute_rows = static_cast<int>(compute_us.size());
  }
  found.dtype = points[0].row->dtype;
  found.measured = bend / element_bytes;
  found.predicted = machine.balance_point("fp32");
  return found;
}

}  // namespace

std::vector<std::int64_t> swept_steps(bool quick) {
  std::vector<std::int64_t> steps;
  for (std::int64_t k = 1; k <= 4096; k *= 2) {
    steps.push_back(k);
    if (!quick && k > 1 && k < 4096) steps.push_back(k + k / 2);
  }
  return steps;
}

std::int64_t swept_elements(std::int64_t bytes, std::int64_t k, Dtype dtype) {
  const std::int64_t elements = bytes / (2 * size_of(dtype));
  return std::max<std::int64_t>(1, k <= 256 ? elements : elements / k * 256);
}

std::vector<ResultRow> time_sweep(Device device, const MachineInfo& machine, bool quick) {
  const std::int64_t bytes = swept_bytes(device, machine);
  const std::vector<std::int64_t> steps = swept_steps(quick);
  std::vector<ResultRow> rows;
  for (const Dtype dtype : dtypes) {
    if (quick && dtype != Dtype::float32) continue;
    const double worst_ulp = verified_ulp(device, dtype);
    for (const std::int64_t k : steps) {
      progress(fmt::format("sweep: {} k {}", name_of(dtype), k));
      Problem problem =
          chain_problem({.n = swept_elements(bytes, k, dtype), .k = k, .dtype = dtype});
      problem.op += fmt::format(" (k {})", k);
      const std::span<const PlanKind> plans(both_plans);
      for (ResultRow& row :
           time_chain(device, machine, problem, k <= last_unfused ? plans : plans.last(1), quick)) {
        if (row.plan == "fused") row.worst_ulp = worst_ulp;
        rows.push_back(std::move(row));
      }
    }
  }
  progress("");
  return rows;
}

bool Bend::agrees() const {
  return apart() >= -0.15 && apart() <= 0.15;
}

std::vector<Bend> find_bends(std::span<const ResultRow> rows, const Machine& machine) {
  std::vector<Bend> bends;
  for (const Dtype dtype : dtypes) {
    const std::optional<Bend> bend = find_bend(points_of(rows, name_of(dtype)), machine);
    if (bend) bends.push_back(*bend);
  }
  return bends;
}

}  // namespace opbook::ch02
