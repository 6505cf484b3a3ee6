#include "common/cuda/device.hpp"
#include "common/error.hpp"

namespace opbook::gpu {
namespace {

[[noreturn]] void refuse() {
  throw DeviceUnavailable("no CUDA device: no CUDA compiler was there when this was built");
}

}  // namespace

void require_device() {
  refuse();
}

void synchronise(Stream) {
  refuse();
}

DeviceMemory::DeviceMemory(std::int64_t) {
  refuse();
}

void DeviceMemory::Free::operator()(std::byte*) const {}

void copy_to_device(std::byte*, const std::byte*, std::int64_t) {
  refuse();
}

void copy_to_host(std::byte*, const std::byte*, std::int64_t) {
  refuse();
}

void copy_on_device(Stream, std::byte*, const std::byte*, std::int64_t) {
  refuse();
}

void fill_on_device(Stream, std::byte*, std::uint8_t, std::int64_t) {
  refuse();
}

Event::Event() {
  refuse();
}

void Event::record(Stream) {
  refuse();
}

double Event::microseconds_since(const Event&) const {
  refuse();
}

void Event::Destroy::operator()(void*) const {}

}  // namespace opbook::gpu
