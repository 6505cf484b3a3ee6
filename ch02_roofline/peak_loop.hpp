#pragma once

// The loop that peak.hpp's files compile, each for its instruction set. All of it is local to the
// file that includes it, and uses nothing of a library: no function that was compiled for a newer
// processor may end up as the program's only copy.

#include "ch02_roofline/peak.hpp"

namespace opbook::ch02::cpu {
namespace {

/// v <- a * v + b on every chain, `rounds` times. Where the file is compiled with
/// -ffp-contract=fast that is one instruction. The empty assembly keeps each chain in a register of
/// its own, and the compiler from joining scalars into vectors.
template <class Vector>
void multiply_adds(std::int64_t rounds) {
  Vector v[peak_chains];
  for (int c = 0; c < peak_chains; ++c) v[c] = Vector{} + static_cast<float>(c);
  const Vector a = Vector{} + 0.5f, b = Vector{} + 0.25f;
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int c = 0; c < peak_chains; ++c) {
      Vector next = v[c] * a + b;
      asm volatile("" : "+x"(next));
      v[c] = next;
    }
  }
}

template <class T, int bytes>
struct Register {
  typedef T type __attribute__((vector_size(bytes)));
};

}  // namespace
}  // namespace opbook::ch02::cpu
