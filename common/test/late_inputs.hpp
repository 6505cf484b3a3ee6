#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/cuda/device.hpp"
#include "common/cuda/late_data.hpp"
#include "common/test/fused_on_device.hpp"
#include "common/test/mirror.hpp"

namespace opbook {

/// Requires of the fused plan that it waits for what it reads: each input in turn is NaN until
/// the kernel ahead of the plan, behind which it may be launched early, writes it late.
inline void require_waits_for_inputs(const Problem& problem) {
  FusedOnDevice plan(problem);
  const std::vector<std::byte> expected = plan.outputs();
  for (const TensorSpec& spec : problem.tensors) {
    if (spec.role != Role::input) continue;
    INFO(problem.op << ' ' << name_of(problem.dtype) << ", " << spec.name << " late");
    std::byte* const input = plan.device().raw(spec.name);
    const std::int64_t bytes = plan.device().bytes(spec.name);
    const auto spoil = [&] { gpu::fill_on_device(nullptr, input, 0xFF, bytes); };
    const bool would_show = plan.outputs(spoil) != expected;
    REQUIRE(would_show);
    const Mirror there(plan.inputs().at(spec.name));
    const bool waits = expected == plan.outputs([&] {
      spoil();
      gpu::late_copy(nullptr, input, there.raw(), bytes);
    });
    CHECK(waits);
  }
}

}  // namespace opbook
