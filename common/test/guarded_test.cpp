#include "common/guarded.hpp"

#include <catch2/catch_test_macros.hpp>
#include <utility>

#include "common/sandbox.hpp"

using namespace opbook;
using How = ChildEnd::How;

TEST_CASE("guarded memory begins or ends right beside a guard, which it knows as its own") {
  for (const std::int64_t bytes : {4, 4096, 5000}) {
    const GuardedMemory front(bytes, Edge::front);
    CHECK(front.guards(front.as<char>() - 1));
    CHECK_FALSE(front.guards(front.as<char>()));
    const GuardedMemory back(bytes, Edge::back);
    CHECK(back.guards(back.as<char>() + bytes));
    CHECK_FALSE(back.guards(back.as<char>() + bytes - 1));
    CHECK_FALSE(back.guards(front.as<char>() - 1));
    CHECK(back.bytes() == bytes);
  }
}

TEST_CASE("what lies beyond either end of guarded memory is neither read nor written") {
  const GuardedMemory front(100, Edge::front);
  const GuardedMemory back(100, Edge::back);
  volatile char* const outside[] = {front.as<char>() - 1, back.as<char>() + 100,
                                    front.as<char>() - (1 << 20), back.as<char>() + (1 << 20)};
  for (volatile char* const at : outside) {
    const ChildEnd read = run_in_child([&] { static_cast<void>(*at); });
    CHECK(read.how == How::bad_access);
    CHECK(read.address == const_cast<char*>(at));
    CHECK_FALSE(read.wrote);
    const ChildEnd written = run_in_child([&] { *at = 1; });
    CHECK(written.how == How::bad_access);
    CHECK(written.address == const_cast<char*>(at));
#if defined(__x86_64__)
    CHECK(written.wrote);
#endif
  }
}

TEST_CASE("guarded memory is zero at first and brings back what a child wrote") {
  const GuardedMemory memory(sizeof(int), Edge::back);
  CHECK(*memory.as<int>() == 0);
  CHECK(run_in_child([&] { *memory.as<int>() = 42; }).how == How::returned);
  CHECK(*memory.as<int>() == 42);
}

TEST_CASE("guarded memory can be moved, and stays where it is") {
  GuardedMemory first(8, Edge::front);
  int* const data = first.as<int>();
  const GuardedMemory second(std::move(first));
  CHECK(second.as<int>() == data);
  CHECK(second.guards(second.as<char>() - 1));
}
