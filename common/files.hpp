#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

namespace opbook {

/// Bytes of a regular file; throws ArgumentError, naming it, where there is none or it is a folder,
/// a pipe or a device.
std::int64_t bytes_of_file(const std::filesystem::path& path);

/// The whole content of a regular file; throws ArgumentError, naming it, where it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// Writes the parts, one after the other, whole or not at all: to a temporary name in the same
/// folder, then renamed. Creates missing folders, replaces a regular file, and throws
/// ArgumentError, naming the file, where any of it fails or something other than a regular file
/// bears the name.
void write_file(const std::filesystem::path& path, std::initializer_list<std::string_view> parts);

}  // namespace opbook
