#include "common/guarded.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <utility>

namespace opbook {
namespace {

constexpr std::int64_t guard_bytes = 16 << 20;

}  // namespace

GuardedMemory::GuardedMemory(std::int64_t bytes, Edge edge) : bytes_(bytes) {
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  pages_ = (bytes + page - 1) / page * page;
  mapped_ = pages_ + 2 * guard_bytes;
  void* const mapping =
      mmap(nullptr, mapped_, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<std::byte*>(mapping);
  std::byte* const pages = mapping_ + guard_bytes;
  if (pages_ > 0 && mprotect(pages, pages_, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping_, mapped_);
    throw std::bad_alloc();
  }
  data_ = edge == Edge::front ? pages : pages + pages_ - bytes;
}

GuardedMemory::~GuardedMemory() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(other.mapped_),
      data_(other.data_),
      bytes_(other.bytes_),
      pages_(other.pages_) {}

bool GuardedMemory::guards(const void* address) const {
  const auto* const at = static_cast<const std::byte*>(address);
  if (at < mapping_ || at >= mapping_ + mapped_) return false;
  const std::byte* const pages = mapping_ + guard_bytes;
  return at < pages || at >= pages + pages_;
}

}  // namespace opbook
