#include <cuda_runtime_api.h>

#include <string>

#include "common/cuda/check.hpp"
#include "common/cuda/device.hpp"
#include "common/cuda/probe.hpp"

namespace opbook::gpu {

void require_device() {
  const Probe probe = probe_device();
  if (!probe.device) throw DeviceUnavailable("no CUDA device: " + probe.reason);
}

void synchronise(Stream stream) {
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

DeviceMemory::DeviceMemory(std::int64_t bytes) : bytes_(bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, static_cast<std::size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it is told here; the next call shall not see it again
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    throw ArgumentError("device memory: got " + std::to_string(bytes) +
                        " bytes; allowed: what is free in one piece, of " + std::to_string(free));
  }
  check(error, "cudaMalloc");
  data_.reset(static_cast<std::byte*>(data));
}

void DeviceMemory::Free::operator()(std::byte* data) const {
  cudaFree(data);  // what failed before comes back here, and was thrown where it was seen first
}

void copy_to_device(std::byte* device, const std::byte* host, std::int64_t bytes) {
  check(cudaMemcpy(device, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice),
        "cudaMemcpy to the device");
  // The copy may still be on its way from a buffer of the driver's.
  synchronise();
}

void copy_to_host(std::byte* host, const std::byte* device, std::int64_t bytes) {
  check(cudaMemcpy(host, device, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost),
        "cudaMemcpy to the host");
}

void copy_on_device(Stream stream, std::byte* to, const std::byte* from, std::int64_t bytes) {
  check(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream),
      "cudaMemcpyAsync");
}

void fill_on_device(Stream stream, std::byte* to, std::uint8_t value, std::int64_t bytes) {
  check(cudaMemsetAsync(to, value, static_cast<std::size_t>(bytes), stream), "cudaMemsetAsync");
}

Event::Event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  event_.reset(event);
}

void Event::record(Stream stream) {
  check(cudaEventRecord(static_cast<cudaEvent_t>(event_.get()), stream), "cudaEventRecord");
}

double Event::microseconds_since(const Event& earlier) const {
  const auto begin = static_cast<cudaEvent_t>(earlier.event_.get());
  const auto end = static_cast<cudaEvent_t>(event_.get());
  check(cudaEventSynchronize(begin), "cudaEventSynchronize");
  check(cudaEventSynchronize(end), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  return 1e3 * static_cast<double>(milliseconds);
}

void Event::Destroy::operator()(void* event) const {
  cudaEventDestroy(static_cast<cudaEvent_t>(event));
}

}  // namespace opbook::gpu
