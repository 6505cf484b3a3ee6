#pragma once

#include <catch2/catch_test_macros.hpp>

#include "common/cuda/probe.hpp"

namespace opbook {

/// Skips the test, with the reason, where there is no device.
inline void require_gpu() {
  const gpu::Probe probe = gpu::probe_device();
  if (!probe.device) SKIP("no CUDA device: " << probe.reason);
}

}  // namespace opbook
