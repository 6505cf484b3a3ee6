#include "common/sandbox.hpp"

#include <signal.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "common/build_kind.hpp"
#include "common/exercise.hpp"
#include "common/guarded.hpp"

using namespace opbook;
using Catch::Matchers::ContainsSubstring;
using How = ChildEnd::How;

namespace {

volatile int sink = 0;

int deep(int depth) {
  volatile char frame[1024];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : deep(depth + 1) + frame[0];
}

void fail() {
  throw std::runtime_error("from a function that promised not to");
}
void promises_not_to() noexcept {
  fail();
}

}  // namespace

TEST_CASE("a child that returns, throws or has not started says so") {
  CHECK(run_in_child([] {}).how == How::returned);
  CHECK(run_in_child([] { not_started(); }).how == How::not_started);
  const ChildEnd threw = run_in_child([] { throw std::runtime_error("no such thing"); });
  CHECK(threw.how == How::threw);
  CHECK(threw.text == "no such thing");
  CHECK(run_in_child([] { throw 3; }).how == How::threw);
}

TEST_CASE("an exception that leaves a noexcept function is still told") {
  const ChildEnd end = run_in_child(promises_not_to);
  CHECK(end.how == How::threw);
  CHECK(end.text == "from a function that promised not to");
}

TEST_CASE("a long text of an exception is cut, not lost") {
  const ChildEnd end = run_in_child([] { throw std::runtime_error(std::string(5000, 'x')); });
  CHECK(end.how == How::threw);
  CHECK(end.text == std::string(255, 'x'));
}

TEST_CASE("a wild pointer and an endless recursion are bad accesses") {
  auto* const nowhere = reinterpret_cast<volatile int*>(16);
  const ChildEnd wild = run_in_child([&] { sink = *nowhere; });
  CHECK(wild.how == How::bad_access);
  CHECK(wild.address == const_cast<int*>(nowhere));
  CHECK(run_in_child([] { sink = deep(0); }).how == How::bad_access);
}

TEST_CASE("a child that is ended by a signal or ends the program is told with the reason") {
  const ChildEnd aborted = run_in_child([] { std::abort(); });
  CHECK(aborted.how == How::died);
  CHECK_THAT(aborted.text, ContainsSubstring("Aborted"));
  const ChildEnd left = run_in_child([] { _exit(0); });
  CHECK(left.how == How::died);
  CHECK_THAT(left.text, ContainsSubstring("ended the program, with exit code 0"));
}

TEST_CASE("a child that does not end is ended when its time is over") {
  const auto start = std::chrono::steady_clock::now();
  const auto never = [] {
    for (;;) sink = sink + 1;
  };
  CHECK(run_in_child(never, {.seconds = 0.3}).how == How::out_of_time);
  // Asleep it uses no time of the processor; with its signals ignored it still ends.
  const auto asleep = [] {
    for (const int number : {SIGTERM, SIGINT, SIGXCPU}) signal(number, SIG_IGN);
    for (;;) pause();
  };
  CHECK(run_in_child(asleep, {.seconds = 0.3}).how == How::out_of_time);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("whatever a child has started ends with it") {
  const GuardedMemory shared(sizeof(pid_t), Edge::back);
  const ChildEnd end = run_in_child([&] {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      for (;;) pause();
    }
    *shared.as<pid_t>() = grandchild;
  });
  CHECK(end.how == How::returned);
  const pid_t grandchild = *shared.as<pid_t>();
  REQUIRE(grandchild > 0);
  // It may stay for a moment as a zombie of whoever adopts it; it must not go on running.
  const auto running = [&] {
    std::string stat = "/proc/" + std::to_string(grandchild) + "/stat";
    FILE* const file = std::fopen(stat.c_str(), "r");
    if (file == nullptr) return false;
    char state = 'Z';
    const int found = std::fscanf(file, "%*d (%*[^)]) %c", &state);
    std::fclose(file);
    return found == 1 && state != 'Z' && state != 'X';
  };
  for (int patience = 0; running() && patience < 1000; ++patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK_FALSE(running());
}

TEST_CASE("a child that asks for more memory than its limit is told apart") {
  if (address_sanitizer) SKIP("AddressSanitizer needs the address space for itself");
  const auto hungry = [](std::size_t bytes) {
    return [=] {
      const std::vector<char> block(bytes, 1);
      sink = block[bytes / 2];
    };
  };
  constexpr std::int64_t limit = 64 << 20;
  CHECK(run_in_child(hungry(limit / 2), {.memory_bytes = limit}).how == How::returned);
  CHECK(run_in_child(hungry(limit * 2), {.memory_bytes = limit}).how == How::out_of_memory);
}

TEST_CASE("a child that never reads its standard input does not wait for it") {
  CHECK(run_in_child([] { sink = std::getchar(); }, {.seconds = 5}).how == How::returned);
}
