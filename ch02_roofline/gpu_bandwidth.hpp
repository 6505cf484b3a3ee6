#pragma once

// What the GPU's memory moves: one kernel for each mix of loads and stores, sixteen bytes at a
// time.

#include <cstdint>
#include <string_view>

#include "common/cuda/device.hpp"

namespace opbook::ch02::gpu {

using opbook::gpu::Stream;

/// Of bandwidth_mixes, in that order, without "peak".
enum class Mix { read, write, copy, scale, triad, mix_2_1 };
inline constexpr Mix mixes[] = {Mix::read,  Mix::write, Mix::copy,
                                Mix::scale, Mix::triad, Mix::mix_2_1};
constexpr std::string_view name_of(Mix mix) {
  constexpr std::string_view names[] = {"read", "write", "copy", "scale", "triad", "mix_2_1"};
  return names[static_cast<int>(mix)];
}

/// Vectors of sixteen bytes that are read and written for each of MixArrays::vectors.
struct Streams {
  int x, z, y;
  int count() const { return x + z + y; }
};
constexpr Streams streams_of(Mix mix) {
  constexpr Streams streams[] = {{1, 0, 0}, {0, 0, 1}, {1, 0, 1}, {1, 0, 1}, {1, 1, 1}, {2, 0, 1}};
  return streams[static_cast<int>(mix)];
}

/// float32 on 16-byte boundaries: `vectors` of y (of x, where nothing is written), a multiple of
/// 32; x twice as many for mix_2_1. What a mix does not use may be nullptr.
struct MixArrays {
  const std::byte* x = nullptr;
  const std::byte* z = nullptr;
  std::byte* y = nullptr;
  std::int64_t vectors = 0;
};

/// read: all of x. write: y = 1. copy: y = x. scale: y = 3 x. triad: y = z + 3 x. mix_2_1: y is the
/// sum of two of x. One vector a thread, in the order of addresses: what copies fastest from
/// memory.
void move_once(Stream stream, Mix mix, const MixArrays& arrays);

/// The same `passes` times in one launch, by `blocks` blocks of 1024 threads that stay, each of
/// which meets the same vectors in every pass: what fits its multiprocessor's L1 stays there.
void move_again(Stream stream, Mix mix, const MixArrays& arrays, int blocks, std::int64_t passes);

/// Fills with float32 in [1, 2), no two alike: data that costs power as real data does.
void fill_floats(Stream stream, std::byte* to, std::int64_t vectors);

}  // namespace opbook::ch02::gpu
