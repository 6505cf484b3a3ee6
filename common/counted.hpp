#pragma once

#include <cmath>
#include <cstdint>

#include "common/simd.hpp"

namespace opbook {

/// FLOPs done so far on this thread through Counted.
inline thread_local std::int64_t counted_flops = 0;

/// A float32 that counts what is done to it, by the exact convention: add, sub, mul, div, abs, max,
/// sqrt, rsqrt and the like cost 1, fma costs 2; negation, casts, clamps and selections are free.
/// It rounds exactly as float does.
struct Counted {
  float value;

  Counted(float v) : value(v) {}
};

namespace detail {
inline Counted charge(std::int64_t flops, float value) {
  counted_flops += flops;
  return value;
}
}  // namespace detail

inline Counted operator+(Counted a, Counted b) {
  return detail::charge(1, a.value + b.value);
}
inline Counted operator-(Counted a, Counted b) {
  return detail::charge(1, a.value - b.value);
}
inline Counted operator*(Counted a, Counted b) {
  return detail::charge(1, a.value * b.value);
}
inline Counted operator/(Counted a, Counted b) {
  return detail::charge(1, a.value / b.value);
}
inline Counted operator-(Counted a) {
  return -a.value;
}

inline Counted abs(Counted a) {
  return detail::charge(1, abs(a.value));
}
inline Counted max(Counted a, Counted b) {
  return detail::charge(1, max(a.value, b.value));
}
inline Counted rsqrt(Counted a) {
  return detail::charge(1, rsqrt(a.value));
}
inline Counted fma(Counted a, Counted b, Counted c) {
  return detail::charge(2, fma(a.value, b.value, c.value));
}
inline Counted clamp(Counted a, float low, float high) {
  return clamp(a.value, low, high);
}

template <class T>
Counted round_through(Counted a) {
  return round_through<T>(a.value);
}

}  // namespace opbook
