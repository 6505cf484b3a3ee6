#include "ch02_roofline/cpu_bandwidth.hpp"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "common/simd.hpp"

namespace opbook::ch02::cpu {
namespace {

constexpr std::int64_t unrolled = 4;  // packs a turn of a loop
constexpr std::align_val_t page{4096};

/// Keeps the compiler from making a loop into a call of memcpy or memset, or from leaving it out.
inline void keep() {
  asm volatile("" ::: "memory");
}

/// How a loop loads and stores. `ahead`: non-temporal stores, and what is loaded is asked for long
/// before: the processor's own prefetching ends with each page.
enum class Way { ordinary, streaming, ahead };

template <Way way>
void put(float* to, Pack value) {
  if constexpr (way == Way::ordinary) {
    std::memcpy(to, &value.lanes, sizeof value.lanes);
  } else {
    detail::stream_bits(to, value.lanes);
  }
}

/// Pack p of a turn.
template <Way way>
Pack take(const float* from, std::int64_t p) {
  constexpr std::int64_t lead = 16 << 10, line = 64;  // bytes
  if constexpr (way == Way::ahead) {
    if (p * static_cast<std::int64_t>(sizeof(Pack)) % line == 0) {
      __builtin_prefetch(reinterpret_cast<const char*>(from) + lead);
    }
  }
  return load_pack(from);
}

/// body(i, p) for every pack: i in elements, p its place in the turn.
template <class Body>
void over_packs(std::int64_t count, Body body) {
  for (std::int64_t i = 0; i < count; i += unrolled * pack_lanes) {
#pragma GCC unroll 4
    for (std::int64_t p = 0; p < unrolled; ++p) body(i + p * pack_lanes, p);
    keep();
  }
}

template <Way way>
void read(const Share& share) {
  Pack::Bits seen[unrolled] = {};
  for (std::int64_t i = 0; i < share.count; i += unrolled * pack_lanes) {
#pragma GCC unroll 4
    for (std::int64_t p = 0; p < unrolled; ++p) {
      seen[p] |= take<way>(share.x + i + p * pack_lanes, p).bits();
    }
  }
  asm volatile("" : : "x"((seen[0] | seen[1]) | (seen[2] | seen[3])));
}

template <Way way>
void write(const Share& share) {
  const Pack one(1.0f);
  over_packs(share.count, [&](std::int64_t i, std::int64_t) { put<way>(share.y + i, one); });
}

template <Way way>
void copy(const Share& share) {
  over_packs(share.count, [&](std::int64_t i, std::int64_t p) {
    put<way>(share.y + i, take<way>(share.x + i, p));
  });
}

template <Way way>
void scale(const Share& share) {
  const Pack factor(3.0f);
  over_packs(share.count, [&](std::int64_t i, std::int64_t p) {
    put<way>(share.y + i, factor * take<way>(share.x + i, p));
  });
}

template <Way way>
void triad(const Share& share) {
  const Pack factor(3.0f);
  over_packs(share.count, [&](std::int64_t i, std::int64_t p) {
    put<way>(share.y + i, fma(factor, take<way>(share.x + i, p), take<way>(share.z + i, p)));
  });
}

template <Way way>
void mix_2_1(const Share& share) {
  over_packs(share.count, [&](std::int64_t i, std::int64_t p) {
    // Packs 2 p and 2 p + 1 of x, of which every line is to be asked for.
    put<way>(share.y + i, take<way>(share.x + 2 * i, 2 * p) +
                              take<way>(share.x + 2 * i + pack_lanes, 2 * p + 1));
  });
}

void by_memcpy(const Share& share) {
  std::memcpy(share.y, share.x, share.count * sizeof(float));
  keep();
}

/// Floats of x, z and y for each element of `count`.
struct Streams {
  int x, z, y;
};
Streams streams_of(std::string_view mix) {
  if (mix == "read") return {1, 0, 0};
  if (mix == "write") return {0, 0, 1};
  if (mix == "triad") return {1, 1, 1};
  if (mix == "mix_2_1") return {2, 0, 1};
  return {1, 0, 1};
}

/// Off a multiple of 4 KiB, and of a line of the caches' sets.
constexpr std::int64_t skew = 4096 / sizeof(float) + 33 * 16;

}  // namespace

std::vector<BandwidthLoop> bandwidth_loops() {
  constexpr const char* ordinary = "ordinary stores";
  constexpr const char* streaming = "non-temporal stores";
  constexpr const char* ahead = "non-temporal stores, prefetched";
  return {{"read", "loads", 4, read<Way::ordinary>},
          {"read", "loads, prefetched", 4, read<Way::ahead>},
          {"write", ordinary, 4, write<Way::ordinary>},
          {"write", streaming, 4, write<Way::streaming>},
          {"copy", ordinary, 8, copy<Way::ordinary>},
          {"copy", streaming, 8, copy<Way::streaming>},
          {"copy", ahead, 8, copy<Way::ahead>},
          {"copy", "memcpy", 8, by_memcpy},
          {"scale", ordinary, 8, scale<Way::ordinary>},
          {"scale", streaming, 8, scale<Way::streaming>},
          {"scale", ahead, 8, scale<Way::ahead>},
          {"triad", ordinary, 12, triad<Way::ordinary>},
          {"triad", streaming, 12, triad<Way::streaming>},
          {"triad", ahead, 12, triad<Way::ahead>},
          {"mix_2_1", ordinary, 12, mix_2_1<Way::ordinary>},
          {"mix_2_1", streaming, 12, mix_2_1<Way::streaming>},
          {"mix_2_1", ahead, 12, mix_2_1<Way::ahead>}};
}

SharedArrays::SharedArrays(std::int64_t most_bytes, int threads)
    : threads_(threads),
      slab_floats_((most_bytes / static_cast<std::int64_t>(sizeof(float)) / threads + 4 * skew) /
                       1024 * 1024 +
                   1024),
      memory_(static_cast<float*>(::operator new(threads* slab_floats_ * sizeof(float), page))) {
#pragma omp parallel num_threads(threads_)
  std::fill_n(memory_.get() + omp_get_thread_num() * slab_floats_, slab_floats_, 1.5f);
}

void SharedArrays::Free::operator()(float* memory) const {
  ::operator delete(memory, page);
}

std::int64_t SharedArrays::lay_out(const BandwidthLoop& loop, std::int64_t bytes) {
  constexpr std::int64_t turn = 64;  // elements: a turn of a loop in any width
  const std::int64_t count =
      std::max<std::int64_t>(1, bytes / threads_ / loop.bytes_an_element / turn) * turn;
  const Streams streams = streams_of(loop.mix);
  shares_.clear();
  for (int thread = 0; thread < threads_; ++thread) {
    float* at = memory_.get() + thread * slab_floats_;
    Share share{at, nullptr, nullptr, count};
    at += streams.x * count + (streams.x > 0 ? skew : 0);
    share.z = at;
    at += streams.z * count + (streams.z > 0 ? skew : 0);
    // Whole lines, so that non-temporal stores are aligned.
    share.y = at;
    shares_.push_back(share);
  }
  return threads_ * count * loop.bytes_an_element;
}

double SharedArrays::pass(const BandwidthLoop& loop, std::int64_t passes) const {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin, end;
#pragma omp parallel num_threads(threads_)
  {
    const Share& share = shares_[omp_get_thread_num()];
#pragma omp barrier
#pragma omp master
    begin = Clock::now();
    for (std::int64_t i = 0; i < passes; ++i) loop.run(share);
    stream_fence();
#pragma omp barrier
#pragma omp master
    end = Clock::now();
  }
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

}  // namespace opbook::ch02::cpu
