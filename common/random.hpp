#pragma once

// Reproducible inputs. An element depends on nothing but (seed, the array's name, its index): not
// on the number of threads, the compiler or the standard library. Every step is integer arithmetic
// or one correctly rounded float operation, so that two machines that fill the same array hold the
// same bits. Values are formed in float32 and rounded once to the array's dtype.
//
// Each fill throws ArgumentError for an integer array.

#include <cstdint>
#include <string_view>

#include "common/array.hpp"

namespace opbook {

/// 64 random bits, the index-th of the stream that (seed, name) names.
std::uint64_t random_bits(std::uint64_t seed, std::string_view name, std::uint64_t index);

/// Zero mean, bell-shaped: the sum of four uniform 16-bit integers, centred (Irwin-Hall), with the
/// standard deviation `scale` and no value beyond 3.47 of it. Throws ArgumentError unless `scale`
/// is finite and above zero.
void fill_normal_like(Array& array, std::uint64_t seed, float scale = 1.0f);

/// fill_normal_like with a standard deviation of its own for each row, between 2^-3 and 2^3, each
/// octave as likely as the next and never a power of two: rows that are mixed up, or a scale that
/// is dropped, show.
void fill_activation(Array& array, std::uint64_t seed);

/// Uniform in [low, high], in steps of (high - low) * 2^-24. Throws ArgumentError unless both
/// bounds and their distance are finite and low < high.
void fill_uniform(Array& array, std::uint64_t seed, float low, float high);

/// A norm's weight: around one, uniform in [0.5, 1.5].
void fill_weight(Array& array, std::uint64_t seed);

}  // namespace opbook
