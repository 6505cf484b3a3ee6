#pragma once

// Measuring a machine's roofs.

#include <vector>

#include "ch02_roofline/roof.hpp"
#include "common/machine_info.hpp"

namespace opbook::ch02 {

/// Bandwidth by mix, working set, kind of stores and number of cores; fp32 and fp64 by instruction
/// set. `quick`: fewer samples and working sets.
std::vector<Roof> measure_cpu_roofs(const MachineInfo& machine, bool quick);

/// What all cores get out of memory and of themselves, once more, for after the sweep: a machine
/// that is shared with others drifts within minutes. `how` says so; the faster visit is the roof.
std::vector<Roof> measure_cpu_roofs_again(const MachineInfo& machine, bool quick);

/// The first-level data cache for a block, the second level of a core for an sm.
OnChip cpu_on_chip();

/// The same of the current CUDA device: on one multiprocessor and on all, tensor cores through
/// cuBLASLt and by mma instructions of our own, launches in a stream and in a graph. Throws
/// DeviceUnavailable without a device.
std::vector<Roof> measure_gpu_roofs(const MachineInfo& machine, bool quick);

/// Shared memory of a block, with the opt-in for more, and of a multiprocessor.
OnChip gpu_on_chip();

}  // namespace opbook::ch02
