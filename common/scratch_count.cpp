#include "common/scratch_count.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "common/build_kind.hpp"

namespace {

bool counting = false;
std::int64_t held = 0;
std::int64_t most = 0;

#if !OPBOOK_ADDRESS_SANITIZER

/// A block's size stands right before it, so that giving it back can be counted too.
std::size_t header_bytes(std::size_t alignment) {
  return std::max(alignment, alignof(std::max_align_t));
}

void* allocate(std::size_t size, std::size_t alignment) {
  const std::size_t header = header_bytes(alignment);
  const std::size_t whole = (size + 2 * header - 1) / header * header;
  if (whole < size) throw std::bad_alloc();
  auto* const block = static_cast<std::byte*>(
      header > alignof(std::max_align_t) ? std::aligned_alloc(header, whole) : std::malloc(whole));
  if (block == nullptr) throw std::bad_alloc();
  std::byte* const given = block + header;
  reinterpret_cast<std::size_t*>(given)[-1] = size;
  if (counting) {
    held += static_cast<std::int64_t>(size);
    most = std::max(most, held);
  }
  return given;
}

void release(void* given, std::size_t alignment) {
  if (given == nullptr) return;
  if (counting) held -= static_cast<std::int64_t>(static_cast<std::size_t*>(given)[-1]);
  std::free(static_cast<std::byte*>(given) - header_bytes(alignment));
}

#endif

}  // namespace

#if !OPBOOK_ADDRESS_SANITIZER

// The other forms of new and delete call these.
void* operator new(std::size_t size) {
  return allocate(size, 1);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept {
  release(block, 1);
}
void operator delete(void* block, std::size_t) noexcept {
  release(block, 1);
}
void operator delete(void* block, std::align_val_t alignment) noexcept {
  release(block, static_cast<std::size_t>(alignment));
}
void operator delete(void* block, std::size_t, std::align_val_t alignment) noexcept {
  release(block, static_cast<std::size_t>(alignment));
}

#endif

namespace opbook {

ScratchCount::ScratchCount() {
  held = 0;
  most = 0;
  counting = true;
}
ScratchCount::~ScratchCount() {
  counting = false;
}
std::int64_t ScratchCount::most_bytes() const {
  return most;
}

}  // namespace opbook
