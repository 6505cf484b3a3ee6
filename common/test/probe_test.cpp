#include "common/cuda/probe.hpp"

#include <catch2/catch_test_macros.hpp>

using opbook::gpu::probe_device;

TEST_CASE("the probe either describes a CUDA device or says why there is none") {
  const auto probe = probe_device();
  CHECK(probe.device.has_value() == probe.reason.empty());
  if (!probe.device) SKIP(probe.reason);
  CHECK(!probe.device->name.empty());
  CHECK(probe.device->major >= 7);
  CHECK(probe.device->sm_count > 0);
  CHECK(probe.device->memory_bytes > 0);
  CHECK(probe.device->l2_bytes > 0);
}

TEST_CASE("the probe gives the same answer twice") {
  const auto first = probe_device();
  const auto second = probe_device();
  CHECK(first.device.has_value() == second.device.has_value());
  CHECK(first.reason == second.reason);
}
