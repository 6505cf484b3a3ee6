#include "common/bench_problem.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/roofs.hpp"

namespace opbook {
namespace {

/// The dtype of the largest output: what a converting copy has to round to.
Dtype output_dtype(const Problem& problem) {
  const Kernel& fused = problem.ledger.fused.kernels.back();
  const Tensor* largest = &fused.writes.front();
  for (const Tensor& tensor : fused.writes) {
    if (tensor.bytes() > largest->bytes()) largest = &tensor;
  }
  return largest->dtype;
}

void add_counts(ResultRow& row, const std::vector<KernelCount>& kernels) {
  std::int64_t read = 0, written = 0, refetched = 0, flops = 0, on_chip = 0;
  for (const KernelCount& kernel : kernels) {
    read += kernel.read_bytes();
    written += kernel.write_bytes();
    refetched += kernel.refetched_bytes();
    flops += kernel.flops;
    on_chip = std::max(on_chip, kernel.on_chip_bytes);
  }
  row.replay_read_bytes = read;
  row.replay_write_bytes = written;
  row.refetched_bytes = refetched;
  row.replay_flops = flops;
  row.on_chip_bytes = on_chip;
}

/// In bytes of the fused plan that would take as long.
std::int64_t cost_of_replay(const Problem& problem) {
  const Case& ledger = problem.ledger;
  return std::max(
      {ledger.fused.moved_bytes(), ledger.fused.flops() / 8, ledger.unfused.moved_bytes() / 8});
}

}  // namespace

ResultRow timed_row(const Problem& problem, PlanKind plan, std::string device,
                    std::span<const double> plan_us, std::span<const double> copy_us) {
  ResultRow row;
  row.op = problem.op;
  row.shape = problem.shape;
  row.dtype = name_of(problem.dtype);
  row.plan = name_of(plan);
  row.device = std::move(device);
  row.temperature = "cold";
  row.bytes = problem.plan(plan).moved_bytes();
  row.flops = problem.plan(plan).flops();
  const Timing timing = summarise(plan_us);
  row.median_us = timing.median_us;
  row.p25_us = timing.p25_us;
  row.p75_us = timing.p75_us;
  row.n = timing.n;
  row.gb_per_s = static_cast<double>(row.bytes) / timing.median_us / 1e3;
  const Bounded share = share_of_roof(copy_us, plan_us);
  row.share_of_roof = share.median;
  row.share_lo = share.low;
  row.share_hi = share.high;
  return row;
}

void add_replays(const Problem& problem, std::int64_t llc_bytes, std::int64_t most_bytes,
                 std::vector<ResultRow>& rows) {
  const std::int64_t bytes = problem.ledger.fused.moved_bytes();
  const std::int64_t cost = cost_of_replay(problem);
  Problem smaller = problem;
  if (cost > most_bytes) {
    const std::int64_t of_1024_rows = cost_of_replay(problem.with_rows(1024));
    smaller = problem.with_rows(std::max<std::int64_t>(1, 1024 * most_bytes / of_1024_rows));
  }
  const double share =
      static_cast<double>(smaller.ledger.fused.moved_bytes()) / static_cast<double>(bytes);
  Tensors tensors(smaller.tensors);
  fill_inputs(smaller, tensors, 1);
  for (ResultRow& row : rows) {
    const PlanKind plan = row.plan == "fused" ? PlanKind::fused : PlanKind::unfused;
    CacheCurve curve;
    if (cost > most_bytes) row.replay_shape = smaller.shape;
    row.replay_ledger_bytes = smaller.replayed_plan(plan).moved_bytes();
    add_counts(row, replay_problem(smaller, plan, tensors, &curve));
    const double cache = share * static_cast<double>(llc_bytes);
    const auto modelled = curve.traffic(static_cast<std::int64_t>(cache)).moved_bytes();
    row.cache_model_bytes = static_cast<std::int64_t>(static_cast<double>(modelled) / share);
  }
}

std::vector<ResultRow> bench_problem(const Problem& problem, Tensors& tensors,
                                     std::int64_t llc_bytes, const TimingOptions& options,
                                     std::span<const PlanKind> plans, std::int64_t replayed_bytes) {
  std::vector<ResultRow> rows;
  Fast fast;
  for (const PlanKind kind : plans) {
    const std::int64_t bytes = problem.plan(kind).moved_bytes();
    const bool converts = problem.dtype != Dtype::float32;
    // The roofs move the fused plan's bytes, scaled below: the unfused plan's would need several
    // times the memory.
    const std::int64_t roof_bytes = problem.ledger.fused.moved_bytes();
    const double scale = static_cast<double>(bytes) / static_cast<double>(roof_bytes);

    std::vector<std::function<void()>> contenders{
        [&] { problem.run(fast, kind, tensors); },
        copy_roof(roof_bytes),
    };
    if (converts) {
      contenders.push_back(converting_copy_roof(roof_bytes, problem.dtype, output_dtype(problem)));
    }
    CacheFlush flush(roof_bytes < 3 * llc_bytes ? llc_bytes : 0);
    std::vector<std::vector<double>> samples = time_in_turn(contenders, [&] { flush(); }, options);
    for (std::size_t roof = 1; roof < samples.size(); ++roof) {
      for (double& sample : samples[roof]) sample *= scale;
    }

    ResultRow row = timed_row(problem, kind, "cpu", samples[0], samples[1]);
    if (converts) {
      const Bounded converting = share_of_roof(samples[2], samples[0]);
      row.share_of_converting_copy = converting.median;
      row.share_of_converting_copy_lo = converting.low;
      row.share_of_converting_copy_hi = converting.high;
    }
    rows.push_back(row);
  }
  add_replays(problem, llc_bytes, replayed_bytes, rows);
  return rows;
}

}  // namespace opbook
