#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "common/array.hpp"

namespace opbook {

/// Reads a numpy .npy file (format 1.0, 2.0, 3.0) in C order into an Array called `name`. Typed
/// files are `<f4`, `<f2`, `<i4`, `<i8` and what ml_dtypes' types become, `<V2` for bfloat16 and
/// `<V1` for float8_e4m3fn. `as` names the dtype that is wanted; given, the bare bits `<u2`
/// (float16, bfloat16) and `|u1` (float8_e4m3fn) are taken too. Nothing is ever converted.
///
/// Throws ArgumentError, one line that names the file, for any other dtype or order, and for a file
/// that is missing, truncated, too long, or whose header contradicts itself or the file.
Array load_npy(const std::filesystem::path& path, std::string name,
               std::optional<Dtype> as = std::nullopt);

/// Writes format 1.0, in the spellings above, so that `numpy.load(file)` reads it, and
/// `.view(ml_dtypes.bfloat16)` or `.view(ml_dtypes.float8_e4m3fn)` gives bare bits their type. The
/// file appears whole or not at all, with the folders it lies in; throws ArgumentError where it
/// cannot be written.
void save_npy(const std::filesystem::path& path, const Array& array);

}  // namespace opbook
