#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "ch13_norm_rope/arguments.hpp"

namespace opbook::ch13 {

/// A field of Arguments as the ledger prints it and as flags and files reach it.
struct Field {
  std::string_view argument;
  std::string_view value_name;  ///< of its flag; empty where that takes no value
  std::string_view help;
  std::int64_t Arguments::* size;  ///< nullptr where the field is no size
};

inline constexpr Field fields[] = {
    {"m", "N", "rows", &Arguments::m},
    {"n", "N", "columns", &Arguments::n},
    {"tokens", "N", "tokens", &Arguments::tokens},
    {"heads", "N", "heads of a token", &Arguments::heads},
    {"rope_dim", "N", "columns that turn, the last ones; even", &Arguments::rope_dim},
    {"group_size", "N", "columns that share a scale, exact only; default: the whole row",
     &Arguments::group_size},
    {"dtype", "TYPE", "dtype of the tensors: float32, float16, bfloat16", nullptr},
    {"out_dtype", "TYPE", "dtype of the codes: float8_e4m3fn, float16, bfloat16", nullptr},
    {"with_y", "", "the fused plan writes y as well, exact only", nullptr},
};

/// The field of that name, or nullptr.
inline const Field* find_field(std::string_view argument) {
  const auto found = std::find_if(std::begin(fields), std::end(fields),
                                  [&](const Field& field) { return field.argument == argument; });
  return found == std::end(fields) ? nullptr : &*found;
}

}  // namespace opbook::ch13
