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

template <bool streaming>
void put(float* to, Pack value) {
  if constexpr (streaming) {
    detail::stream_bits(to, value.lanes);
  } else {
    std::memcpy(to, &value.lanes, sizeof value.lanes);
  }
}

/// body(i) for every pack, i in elements.
template <class Body>
void over_packs(std::int64_t count, Body body) {
  for (std::int64_t i = 0; i < count; i += unrolled * pack_lanes) {
#pragma GCC unroll 4
    for (std::int64_t p = 0; p < unrolled; ++p) body(i + p * pack_lanes, p);
    keep();
  }
}

void read(const Share& share) {
  Pack::Bits seen[unrolled] = {};
  for (std::int64_t i = 0; i < share.count; i += unrolled * pack_lanes) {
#pragma GCC unroll 4
    for (std::int64_t p = 0; p < unrolled; ++p) {
      seen[p] |= load_pack(share.x + i + p * pack_lanes).bits();
    }
  }
  asm volatile("" : : "x"((seen[0] | seen[1]) | (seen[2] | seen[3])));
}

template <bool streaming>
void write(const Share& share) {
  const Pack one(1.0f);
  over_packs(share.count, [&](std::int64_t i, std::int64_t) { put<streaming>(share.y + i, one); });
}

template <bool streaming>
void copy(const Share& share) {
  over_packs(share.count, [&](std::int64_t i, std::int64_t) {
    put<streaming>(share.y + i, load_pack(share.x + i));
  });
}

template <bool streaming>
void scale(const Share& share) {
  const Pack factor(3.0f);
  over_packs(share.count, [&](std::int64_t i, std::int64_t) {
    put<streaming>(share.y + i, factor * load_pack(share.x + i));
  });
}

template <bool streaming>
void triad(const Share& share) {
  const Pack factor(3.0f);
  over_packs(share.count, [&](std::int64_t i, std::int64_t) {
    put<streaming>(share.y + i, fma(factor, load_pack(share.x + i), load_pack(share.z + i)));
  });
}

template <bool streaming>
void mix_2_1(const Share& share) {
  over_packs(share.count, [&](std::int64_t i, std::int64_t) {
    put<streaming>(share.y + i,
                   load_pack(share.x + 2 * i) + load_pack(share.x + 2 * i + pack_lanes));
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
  return {{"read", "loads", 4, read},
          {"write", ordinary, 4, write<false>},
          {"write", streaming, 4, write<true>},
          {"copy", ordinary, 8, copy<false>},
          {"copy", streaming, 8, copy<true>},
          {"copy", "memcpy", 8, by_memcpy},
          {"scale", ordinary, 8, scale<false>},
          {"scale", streaming, 8, scale<true>},
          {"triad", ordinary, 12, triad<false>},
          {"triad", streaming, 12, triad<true>},
          {"mix_2_1", ordinary, 12, mix_2_1<false>},
          {"mix_2_1", streaming, 12, mix_2_1<true>}};
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
