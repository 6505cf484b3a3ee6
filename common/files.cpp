#include "common/files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "common/error.hpp"

namespace opbook {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, std::string_view why) {
  throw ArgumentError(fmt::format("{}: {}", path.string(), why));
}

/// Throws where `path` is not a regular file; returns whether there is anything at all.
bool regular_file_exists(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return false;
  if (status.type() == fs::file_type::none) refuse(path, error.message());
  if (!fs::is_regular_file(status)) {
    refuse(path, fs::is_directory(status) ? "is a folder; allowed: a regular file"
                                          : "is a device or a pipe; allowed: a regular file");
  }
  return true;
}

}  // namespace

std::int64_t bytes_of_file(const fs::path& path) {
  if (!regular_file_exists(path)) refuse(path, "no such file");
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) refuse(path, error.message());
  return static_cast<std::int64_t>(size);
}

std::string read_file(const fs::path& path) {
  std::string content(static_cast<std::size_t>(bytes_of_file(path)), '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(content.data(), static_cast<std::streamsize>(content.size()))) {
    refuse(path, "cannot be read");
  }
  return content;
}

void write_file(const fs::path& path, std::initializer_list<std::string_view> parts) {
  regular_file_exists(path);
  std::error_code error;
  if (path.has_parent_path()) {
    fs::create_directories(path.parent_path(), error);
    if (error) refuse(path, fmt::format("its folder cannot be created: {}", error.message()));
  }

  const fs::path temporary = fmt::format("{}.{}.tmp", path.string(), getpid());
  errno = 0;
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  for (const std::string_view part : parts) {
    file.write(part.data(), static_cast<std::streamsize>(part.size()));
  }
  file.close();
  const int write_error = errno;
  if (!file) {
    fs::remove(temporary, error);
    refuse(path, fmt::format("cannot be written: {}", std::strerror(write_error)));
  }
  fs::rename(temporary, path, error);
  if (error) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    refuse(path, fmt::format("cannot be written: {}", error.message()));
  }
}

}  // namespace opbook
