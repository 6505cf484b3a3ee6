#include "common/cuda/bench_on_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "common/bench_problem.hpp"
#include "common/cuda/device.hpp"
#include "common/cuda/graph.hpp"
#include "common/error.hpp"
#include "common/machine.hpp"

namespace opbook::gpu {
namespace {

/// Repeats the first `filled` bytes until there are `bytes`.
void repeat(std::byte* to, std::int64_t filled, std::int64_t bytes) {
  while (filled < bytes) {
    const std::int64_t more = std::min(filled, bytes - filled);
    copy_on_device(nullptr, to + filled, to, more);
    filled += more;
  }
}

/// Writes more than the L2 holds. While the device is at it, the host has time to queue what comes
/// next, so that no gap between launches is timed.
class L2Flush {
 public:
  explicit L2Flush(std::int64_t l2_bytes)
      : memory_(std::max<std::int64_t>(4 * l2_bytes, 256'000'000)) {}
  void operator()() { fill_on_device(nullptr, memory_.data(), 0, memory_.bytes()); }

 private:
  DeviceMemory memory_;
};

/// A device copy that moves `bytes`, half of them read, half written.
class DeviceCopy {
 public:
  explicit DeviceCopy(std::int64_t bytes) : from_(bytes / 2), to_(bytes / 2) {}
  /// Copies bits like the operator's, not zeros, which cost less power.
  void fill(const std::byte* bits, std::int64_t bytes) {
    const std::int64_t some = std::min(bytes, from_.bytes());
    copy_on_device(nullptr, from_.data(), bits, some);
    repeat(from_.data(), some, from_.bytes());
  }
  void operator()() { copy_on_device(nullptr, to_.data(), from_.data(), from_.bytes()); }

 private:
  DeviceMemory from_, to_;
};

/// Makes cold samples of `work`: microseconds on the device's clock.
std::function<double()> cold_sample(L2Flush& flush, Event& before, Event& after,
                                    std::function<void()> work) {
  return [&flush, &before, &after, work = std::move(work)] {
    flush();
    before.record(nullptr);
    work();
    after.record(nullptr);
    return after.microseconds_since(before);
  };
}

/// Why a rate beyond the copy's may still be right.
std::optional<std::string> note_on_rate(const ResultRow& row) {
  if (!(row.share_of_roof > 1.05)) return std::nullopt;
  return fmt::format("{:.0f} % of the copy: {}", 100 * row.share_of_roof,
                     row.plan == "unfused"
                         ? "the L2 may have kept what one kernel stored until the next one read it"
                         : "it may read more than it writes, as a copy does not");
}

/// What is to be allocated: a witness is no part of the operator.
std::vector<TensorSpec> timed_tensors(const Problem& problem) {
  std::vector<TensorSpec> specs;
  for (const TensorSpec& spec : problem.tensors) {
    if (spec.role != Role::witness) specs.push_back(spec);
  }
  return specs;
}

/// The fused plan in a graph, launch after launch on tensors of its own, and as many launches of a
/// kernel that reads one word of the same inputs. Both are timed after an L2 flush, so that none
/// finds its data in a cache; tensors lie spread over three times the L2, so that pages are not all
/// at hand either.
class InGraphs {
 public:
  InGraphs(const Problem& problem, const DeviceTensors& filled, std::int64_t l2_bytes) {
    const std::int64_t bytes = problem.ledger.fused.moved_bytes();
    const std::int64_t count = std::clamp<std::int64_t>(3 * l2_bytes / bytes, 1, 512);
    const std::vector<TensorSpec> specs = timed_tensors(problem);
    for (std::int64_t i = 0; i < count; ++i) {
      between_.emplace_back(3 * l2_bytes / count);
      DeviceTensors& tensors = tensors_.emplace_back(specs);
      for (const TensorSpec& spec : specs) {
        copy_on_device(nullptr, tensors.raw(spec.name), filled.raw(spec.name),
                       tensors.bytes(spec.name));
      }
    }
    synchronise();
    operator_.emplace([&](Stream stream) {
      for (DeviceTensors& tensors : tensors_) {
        problem.run_on_gpu(stream, PlanKind::fused, tensors);
      }
    });
    one_read_.emplace([&](Stream stream) {
      for (DeviceTensors& tensors : tensors_) {
        read_one_word(stream, tensors.raw(specs.front().name), word_.data());
      }
    });
  }

  const Graph& of_operator() const { return *operator_; }
  const Graph& of_one_read() const { return *one_read_; }
  std::int64_t launches() const { return static_cast<std::int64_t>(tensors_.size()); }

 private:
  std::vector<DeviceMemory> between_;
  std::vector<DeviceTensors> tensors_;
  DeviceMemory word_{4};
  std::optional<Graph> operator_, one_read_;
};

/// The row of an operator that is over before its launch from the host would be.
ResultRow row_in_graph(const Problem& problem, const DeviceTensors& filled,
                       const MachineInfo& device, const TimingOptions& options, L2Flush& flush,
                       Event& before, Event& after) {
  const InGraphs graphs(problem, filled, device.llc_bytes);
  const std::function<double()> contenders[] = {
      cold_sample(flush, before, after, [&] { graphs.of_operator().launch(nullptr); }),
      cold_sample(flush, before, after, [&] { graphs.of_one_read().launch(nullptr); }),
  };
  std::vector<std::vector<double>> samples = sample_in_turn(contenders, options);
  for (std::vector<double>& of_contender : samples) {
    for (double& sample : of_contender) sample /= static_cast<double>(graphs.launches());
  }
  ResultRow row = timed_row(problem, PlanKind::fused, "cuda", samples[0], samples[1]);
  row.temperature = "hot";
  row.roof = "one read";
  return row;
}

}  // namespace

void fill_repeating(const Problem& problem, DeviceTensors& tensors) {
  const Problem few = problem.with_rows(64);
  Tensors filled(few.tensors);
  fill_inputs(few, filled, 1);
  for (const TensorSpec& spec : problem.tensors) {
    if (spec.role != Role::input) continue;
    const Array& array = filled.at(spec.name);
    const std::int64_t bytes = tensors.bytes(spec.name);
    const std::int64_t some = std::min(array.bytes(), bytes);
    copy_to_device(tensors.raw(spec.name), array.raw(), some);
    repeat(tensors.raw(spec.name), some, bytes);
  }
  synchronise();
}

std::vector<ResultRow> bench_on_device(const Problem& problem, const MachineInfo& device,
                                       const TimingOptions& options,
                                       std::span<const PlanKind> plans) {
  if (!problem.run_on_gpu) {
    throw DeviceUnavailable(fmt::format(
        "--device: got \"cuda\", for which {} has no kernels; allowed: cpu", problem.op));
  }
  const std::vector<TensorSpec> specs = timed_tensors(problem);
  DeviceTensors tensors(specs);
  fill_repeating(problem, tensors);
  const std::string& input = specs.front().name;

  L2Flush flush(device.llc_bytes);
  Event before, after;
  std::vector<ResultRow> rows;
  for (const PlanKind plan : plans) {
    // A copy of more than memory leaves room for moves fewer bytes; its time is scaled.
    const std::int64_t bytes = problem.plan(plan).moved_bytes();
    const std::int64_t copied = std::min(bytes, device.memory_bytes / 4);
    DeviceCopy copy(copied);
    copy.fill(tensors.raw(input), tensors.bytes(input));
    const std::function<double()> contenders[] = {
        cold_sample(flush, before, after, [&] { problem.run_on_gpu(nullptr, plan, tensors); }),
        cold_sample(flush, before, after, [&] { copy(); }),
    };
    std::vector<std::vector<double>> samples = sample_in_turn(contenders, options);
    for (double& sample : samples[1]) {
      sample *= static_cast<double>(bytes) / static_cast<double>(copied);
    }
    ResultRow& row = rows.emplace_back(timed_row(problem, plan, "cuda", samples[0], samples[1]));
    row.note = note_on_rate(row);
  }
  // A fraction of a second of replay: the device waits meanwhile.
  add_replays(problem, device.llc_bytes, 8'000'000, rows);
  // What moves less takes its time by being launched and waiting for its first byte.
  constexpr std::int64_t small = 1'000'000;
  if (plans.size() == std::size(both_plans) && problem.ledger.fused.moved_bytes() <= small) {
    rows.push_back(row_in_graph(problem, tensors, device, options, flush, before, after));
  }
  return rows;
}

std::string impossible_rate(const ResultRow& row, const MachineInfo& device) {
  const std::optional<Machine> sheet = data_sheet_of(device.name);
  if (row.plan == "unfused" || !sheet || row.gb_per_s <= sheet->bandwidth_for("peak")) return "";
  return fmt::format("{} {}: {:.0f} GB/s, but the data sheet allows {:.0f}", row.op, row.dtype,
                     row.gb_per_s, sheet->bandwidth_for("peak"));
}

}  // namespace opbook::gpu
