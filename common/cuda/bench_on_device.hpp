#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/cuda/device_tensors.hpp"
#include "common/machine_info.hpp"
#include "common/problem.hpp"
#include "common/results.hpp"
#include "common/timing.hpp"

namespace opbook::gpu {

/// Fills every input on the device: what its spec fills of 64 rows, again and again. Filling all of
/// a large one on the host would take longer than all that is timed.
void fill_repeating(const Problem& problem, DeviceTensors& tensors);

/// Times both plans of a problem on the current device, each in turn with a device copy of the
/// same bytes, the L2 flushed before each sample; one row a plan, replay columns included; or of
/// `plans` alone. With both plans of an operator that moves less than a megabyte a third row tells
/// what the fused one takes in a graph ("hot", though its data is not), as a share of "one read":
/// of a kernel that reads a single word. The caller has verified the operator. Throws ArgumentError
/// where memory does not suffice, DeviceUnavailable where the problem has no kernels.
std::vector<ResultRow> bench_on_device(const Problem& problem, const MachineInfo& device,
                                       const TimingOptions& options,
                                       std::span<const PlanKind> plans = both_plans);

/// What is impossible about a row's rate, and so wrong about its time: above what the data sheet of
/// a known machine of this name says. Empty where nothing is. An unfused plan is let off: what it
/// stores and reads again may come out of the L2.
std::string impossible_rate(const ResultRow& row, const MachineInfo& device);

}  // namespace opbook::gpu
