#pragma once

// What kind of build this is, for the few places where that matters.

#if defined(__SANITIZE_ADDRESS__)
#define OPBOOK_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OPBOOK_ADDRESS_SANITIZER 1
#endif
#endif
#ifndef OPBOOK_ADDRESS_SANITIZER
#define OPBOOK_ADDRESS_SANITIZER 0
#endif

namespace opbook {

inline constexpr bool address_sanitizer = OPBOOK_ADDRESS_SANITIZER != 0;

/// Times mean something: optimised, and not instrumented.
#ifdef __OPTIMIZE__
inline constexpr bool times_count = !address_sanitizer;
#else
inline constexpr bool times_count = false;
#endif

}  // namespace opbook
