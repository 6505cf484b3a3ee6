#include "common/array.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "common/checked.hpp"

namespace opbook {
namespace {

constexpr std::align_val_t alignment{64};
constexpr std::int64_t guard_bytes = 4096;  // a row of 1024 float32: an off-by-one row lands in it
constexpr std::byte guard_value{0xA5};      // unlike the poison, so that neither hides the other
constexpr int poison_value = 0xFF;

// Where no dimension is zero this is the number of elements; the order of the factors matters only
// for shapes like {2^40, 2^40, 0}, which are refused because their row count does not fit.
std::int64_t product(const std::vector<std::int64_t>& sizes, std::size_t count) {
  std::int64_t result = 1;
  for (std::size_t i = 0; i < count; ++i) result = checked_mul({result, sizes[i]});
  return result;
}

std::int64_t physical_memory() {
  return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

}  // namespace

Array::Array(std::string name, Dtype dtype, std::vector<std::int64_t> shape,
             std::int64_t offset_elements)
    : name_(std::move(name)), dtype_(dtype), shape_(std::move(shape)) {
  const auto refuse = [&](std::string_view allowed) {
    throw ArgumentError(fmt::format("{}: got shape [{}] of {} at offset {}; allowed: {}", name_,
                                    fmt::join(shape_, ", "), name_of(dtype_), offset_elements,
                                    allowed));
  };
  if (offset_elements < 0) refuse("an offset of 0 or above");
  if (std::any_of(shape_.begin(), shape_.end(), [](std::int64_t size) { return size < 0; })) {
    refuse("sizes of 0 and above");
  }

  std::int64_t front = 0;
  std::int64_t total = 0;
  try {
    elements_ = product(shape_, shape_.size());
    front = checked_add({guard_bytes, checked_mul({offset_elements, size_of(dtype_)})});
    total = checked_add({front, checked_mul({elements_, size_of(dtype_)}), guard_bytes});
  } catch (const ArgumentError&) {
    refuse("sizes whose bytes stay below 2^63");
  }
  // The kernel would hand out address space beyond its memory and kill the program later.
  const auto size = static_cast<std::size_t>(total);
  if (total <= physical_memory()) {
    memory_.reset(static_cast<std::byte*>(::operator new(size, alignment, std::nothrow)));
  }
  if (!memory_) refuse("what fits in this machine's memory");
  first_ = memory_.get() + front;
  poison();
  std::fill(memory_.get(), first_, guard_value);
  std::fill_n(first_ + bytes(), guard_bytes, guard_value);
}

std::int64_t Array::row_count() const {
  if (!memory_) return 0;
  return shape_.empty() ? 1 : product(shape_, shape_.size() - 1);
}

double Array::value(std::int64_t i) const {
  if (i < 0 || i >= elements()) {
    throw ArgumentError(
        fmt::format("{}: got index {}; allowed: 0 up to, not including, {}", name_, i, elements()));
  }
  switch (dtype_) {
    case Dtype::float32:
      return data<float>()[i];
    case Dtype::float16:
      return to_float(data<float16>()[i]);
    case Dtype::bfloat16:
      return to_float(data<bfloat16>()[i]);
    case Dtype::float8_e4m3fn:
      return to_float(data<float8_e4m3fn>()[i]);
    case Dtype::int32:
      return data<std::int32_t>()[i];
    case Dtype::int64:
      return static_cast<double>(data<std::int64_t>()[i]);
  }
  return 0;
}

void Array::poison() {
  // In parallel, so that on machines with several memory nodes each page is first touched by, and
  // so placed near, a thread that is likely to work on it.
  constexpr std::int64_t chunk = 1 << 20;
  const std::int64_t size = bytes();
#pragma omp parallel for schedule(static) if (size > chunk)
  for (std::int64_t begin = 0; begin < size; begin += chunk) {
    std::memset(first_ + begin, poison_value,
                static_cast<std::size_t>(std::min(chunk, size - begin)));
  }
}

bool Array::guards_intact() const {
  if (!memory_) return true;
  const auto intact = [](const std::byte* begin, const std::byte* end) {
    return std::all_of(begin, end, [](std::byte b) { return b == guard_value; });
  };
  const std::byte* last = first_ + bytes();
  return intact(memory_.get(), first_) && intact(last, last + guard_bytes);
}

void Array::require(Dtype dtype) const {
  if (dtype != dtype_) {
    throw ArgumentError(fmt::format("{}: asked for {} elements of an array of {}; allowed: {}",
                                    name_, name_of(dtype), name_of(dtype_), name_of(dtype_)));
  }
}

void Array::Free::operator()(std::byte* memory) const {
  ::operator delete(memory, alignment);
}

}  // namespace opbook
