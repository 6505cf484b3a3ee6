#include "common/replay.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/error.hpp"

namespace opbook {
namespace {

constexpr std::int64_t line_bytes = 64;

std::int64_t total(const std::vector<TensorCount>& tensors, std::int64_t TensorCount::* figure) {
  std::int64_t sum = 0;
  for (const TensorCount& tensor : tensors) sum += tensor.*figure;
  return sum;
}

}  // namespace

std::int64_t KernelCount::read_bytes() const {
  return total(tensors, &TensorCount::read_bytes);
}
std::int64_t KernelCount::write_bytes() const {
  return total(tensors, &TensorCount::write_bytes);
}
std::int64_t KernelCount::refetched_bytes() const {
  return total(tensors, &TensorCount::refetched_bytes);
}

void Meter::declare(std::string name, const void* first, std::int64_t bytes) {
  const auto* begin = static_cast<const std::byte*>(first);
  for (const Span& span : spans_) {
    if (begin == span.first && bytes == span.bytes) return;
    if (begin < span.first + span.bytes && span.first < begin + bytes) {
      throw ArgumentError(name + ": overlaps " + span.name + "; allowed: memory of its own");
    }
  }
  const std::int64_t first_line = read_bits_.size();
  const std::int64_t lines = first_line + (bytes + line_bytes - 1) / line_bytes;
  spans_.push_back({std::move(name), begin, bytes, first_line, lines});
  counts_.resize(spans_.size());
  read_bits_.resize(lines);
  written_bits_.resize(lines);
  touched_.reserve(lines);  // nothing is allocated while memory is touched
  cache_.resize(lines);
}

void Meter::begin_kernel(std::string name) {
  kernels_.emplace_back().name = std::move(name);
  counts_.assign(spans_.size(), {});
  flops_before_ = counted_flops;
}

void Meter::end_call() {
  for (const auto& [tensor, line] : touched_) {
    counts_[tensor].read_bytes += std::popcount(read_bits_[line]);
    counts_[tensor].write_bytes += std::popcount(written_bits_[line]);
    read_bits_[line] = written_bits_[line] = 0;
  }
  touched_.clear();
  cache_.clear();
  ++kernels_.back().calls;
}

void Meter::end_kernel() {
  end_call();
  KernelCount& kernel = kernels_.back();
  kernel.flops = counted_flops - flops_before_;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    if (counts_[i].read_bytes + counts_[i].write_bytes == 0) continue;
    counts_[i].name = spans_[i].name;
    kernel.tensors.push_back(counts_[i]);
  }
}

void Meter::read(const void* from, std::int64_t bytes) {
  for_lines(from, bytes, [this](std::size_t tensor, std::int64_t line, std::uint64_t touched) {
    if (curve_ != nullptr) curve_->read(line);
    const bool hit = cache_.touch(line);
    if (!hit && read_bits_[line] != 0) {
      const Span& span = spans_[tensor];
      const std::int64_t offset = (line - span.first_line) * line_bytes;
      counts_[tensor].refetched_bytes += std::min(line_bytes, span.bytes - offset);
    }
    touch(tensor, line);
    read_bits_[line] |= touched;
  });
}

void Meter::write(const void* to, std::int64_t bytes) {
  for_lines(to, bytes, [this](std::size_t tensor, std::int64_t line, std::uint64_t touched) {
    if (curve_ != nullptr) curve_->write(line);
    cache_.touch(line);
    touch(tensor, line);
    written_bits_[line] |= touched;
  });
}

void Meter::touch(std::size_t tensor, std::int64_t line) {
  if (read_bits_[line] == 0 && written_bits_[line] == 0) touched_.push_back({tensor, line});
}

void Meter::on_chip(const void* first, std::int64_t bytes) {
  scratch_.push_back({static_cast<const std::byte*>(first), bytes});
  std::int64_t held = 0;
  for (const OnChip& part : scratch_) held += part.bytes;
  std::int64_t& most = kernels_.back().on_chip_bytes;
  most = std::max(most, held);
}

void Meter::leave_row() {
  scratch_.clear();
}

template <class Visit>
void Meter::for_lines(const void* at, std::int64_t bytes, Visit visit) {
  if (bytes == 0) return;
  const auto* begin = static_cast<const std::byte*>(at);
  const auto holds = [&](const auto& part) {
    return begin >= part.first && begin + bytes <= part.first + part.bytes;
  };
  const auto span = std::find_if(spans_.begin(), spans_.end(), holds);
  if (span == spans_.end()) {
    if (std::any_of(scratch_.begin(), scratch_.end(), holds)) return;
    throw CheckFailed("replay: kernel " + kernels_.back().name + " touched " +
                      std::to_string(bytes) + " bytes that belong to no declared tensor");
  }
  const std::int64_t offset = begin - span->first;
  for (std::int64_t byte = offset; byte < offset + bytes;) {
    const std::int64_t in_line = byte % line_bytes;
    const std::int64_t count = std::min(line_bytes - in_line, offset + bytes - byte);
    const std::uint64_t ones =
        count == line_bytes ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
    visit(span - spans_.begin(), span->first_line + byte / line_bytes, ones << in_line);
    byte += count;
  }
}

}  // namespace opbook
