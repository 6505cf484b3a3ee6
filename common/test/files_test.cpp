#include "common/files.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>
#include <string>

#include "common/error.hpp"
#include "common/test/temporary_folder.hpp"

using namespace opbook;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("a file is written from its parts, over an older one, and read back", "[files]") {
  const TemporaryFolder folder;
  const auto path = folder.write("a.bin", "something longer than what follows");
  const std::string zeros(3, '\0');
  write_file(path, {"one", zeros, "", "two"});
  REQUIRE(read_file(path) == std::string("one\0\0\0two", 9));
  REQUIRE(bytes_of_file(path) == 9);
  write_file(path, {});
  REQUIRE(read_file(path).empty());
  REQUIRE(folder.files() == 1);
}

TEST_CASE("missing folders are created on the way", "[files]") {
  const TemporaryFolder folder;
  write_file(folder.path() / "a/b c/d.txt", {"x"});
  REQUIRE(read_file(folder.path() / "a/b c/d.txt") == "x");
}

TEST_CASE("a missing file, a folder and a pipe are no files to read", "[files]") {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE_THROWS_MATCHES(read_file(folder.path() / "none"), ArgumentError,
                         MessageMatches(ContainsSubstring("none: no such file")));
  REQUIRE_THROWS_MATCHES(read_file(folder.path()), ArgumentError,
                         MessageMatches(ContainsSubstring("is a folder")));
  REQUIRE_THROWS_MATCHES(read_file(pipe), ArgumentError, MessageMatches(ContainsSubstring("pipe")));
  REQUIRE_THROWS_AS(bytes_of_file(folder.write("file", "x") / "below"), ArgumentError);
}

TEST_CASE("a write that fails leaves what was there and nothing beside it", "[files]") {
  const TemporaryFolder folder;
  const auto below_a_file = folder.write("file", "old") / "new";
  REQUIRE_THROWS_MATCHES(write_file(below_a_file, {"x"}), ArgumentError,
                         MessageMatches(ContainsSubstring("file/new")));
  REQUIRE(read_file(folder.path() / "file") == "old");
  REQUIRE_THROWS_AS(write_file(folder.path(), {"x"}), ArgumentError);
  REQUIRE_THROWS_AS(write_file(folder.path() / std::string(300, 'n'), {"x"}), ArgumentError);
  REQUIRE(folder.files() == 1);
}

TEST_CASE("a pipe or a device is not replaced by a file", "[files]") {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE_THROWS_MATCHES(write_file(pipe, {"x"}), ArgumentError,
                         MessageMatches(ContainsSubstring("pipe: is a device or a pipe")));
  REQUIRE(std::filesystem::is_fifo(pipe));
  REQUIRE(folder.files() == 1);
}

TEST_CASE("a full disk leaves the old file and nothing beside it", "[files]") {
  // A limit on the size of files this process may write acts like one.
  const TemporaryFolder folder;
  const auto path = folder.write("a.bin", "old");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit tight = before;
  tight.rlim_cur = 1000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &tight) == 0);
  std::string message;
  try {
    write_file(path, {std::string(100000, 'x')});
  } catch (const ArgumentError& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  REQUIRE_THAT(message, ContainsSubstring("a.bin: cannot be written: File too large"));
  REQUIRE(read_file(path) == "old");
  REQUIRE(folder.files() == 1);
}
