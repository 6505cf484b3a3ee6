#include "common/scratch_count.hpp"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <new>
#include <vector>

#include "common/build_kind.hpp"

using namespace opbook;

namespace {

struct alignas(256) Wide {
  char bytes[512];
};

}  // namespace

TEST_CASE("scratch is counted at its height, to the byte") {
  if (address_sanitizer) SKIP("AddressSanitizer has its own allocator");
  const ScratchCount count;
  CHECK(count.most_bytes() == 0);
  {
    const std::vector<char> first(1000);
    const std::vector<char> second(500);
  }
  const std::vector<char> third(1200);
  CHECK(count.most_bytes() == 1500);
}

TEST_CASE("scratch of every form of new is counted and given back") {
  if (address_sanitizer) SKIP("AddressSanitizer has its own allocator");
  const ScratchCount count;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto array = std::make_unique<double[]>(10);
    const auto wide = std::make_unique<Wide>();
    const std::unique_ptr<char[]> quiet(new (std::nothrow) char[8]);
    CHECK(reinterpret_cast<std::uintptr_t>(wide.get()) % alignof(Wide) == 0);
  }
  CHECK(count.most_bytes() == 80 + sizeof(Wide) + 8);
}

TEST_CASE("memory that there cannot be is refused") {
  const volatile std::size_t huge = ~std::size_t{0};
  if (address_sanitizer) SKIP("AddressSanitizer ends the program instead");
  CHECK_THROWS_AS(::operator new(huge), std::bad_alloc);
  CHECK_THROWS_AS(::operator new(huge / 2), std::bad_alloc);
}
