#include "common/rope_table.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>

#include "common/error.hpp"
#include "common/verify.hpp"

using namespace opbook;
using Catch::Matchers::WithinAbs;

TEMPLATE_TEST_CASE("a table's angles are formed in double and rounded once", "", float, float16,
                   bfloat16) {
  constexpr Dtype dtype = dtype_of<TestType>;
  Array cosines("cos", dtype, {15963, 4}), sines("sin", dtype, {15963, 4});
  fill_rope_table(cosines, Wave::cosine);
  fill_rope_table(sines, Wave::sine);
  // Pair 0 turns by one radian a position. cos(15962) by an independent reduction: 15962 less 2540
  // full turns.
  const double turns = 15962.0L - 2540 * 2 * 3.14159265358979323846264338327950288L;
  CHECK_THAT(std::cos(turns), WithinAbs(-0.908016, 5e-7));
  CHECK(cosines.value(15962 * 4) == round_to(dtype, std::cos(turns)));
  CHECK(sines.value(15962 * 4) == round_to(dtype, std::sin(turns)));
  CHECK(cosines.value(2049 * 4) == round_to(dtype, std::cos(2049.0)));
}

TEST_CASE("the frequencies belong to the rotated width, not to the head's") {
  // Width 64 inside a head of 128: 32 pairs, pair i turns by theta^(-2i/64).
  Array cosines("cos", Dtype::float32, {2, 32});
  fill_rope_table(cosines, Wave::cosine);
  CHECK(cosines.value(32 + 16) == round_to(Dtype::float32, std::cos(std::pow(10000.0, -0.5))));
  CHECK(cosines.value(32 + 16) != round_to(Dtype::float32, std::cos(std::pow(10000.0, -0.25))));
}

TEST_CASE("a table that is none is refused") {
  Array vector("cos", Dtype::float32, {4}), integers("cos", Dtype::int32, {4, 4});
  Array table("cos", Dtype::float32, {4, 4});
  CHECK_THROWS_AS(fill_rope_table(vector, Wave::cosine), ArgumentError);
  CHECK_THROWS_AS(fill_rope_table(integers, Wave::cosine), ArgumentError);
  CHECK_THROWS_AS(fill_rope_table(table, Wave::cosine, 0.0), ArgumentError);
  CHECK_THROWS_AS(fill_rope_table(table, Wave::cosine, NAN), ArgumentError);
}
