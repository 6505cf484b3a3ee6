// Design D's kernel for few rows is launched before the one ahead of it has ended: that it waits
// for what it reads.

#include <catch2/catch_test_macros.hpp>

#include "ch28_design/our_blocks.hpp"
#include "ch28_design/problem.hpp"
#include "common/test/late_inputs.hpp"
#include "common/test/require_gpu.hpp"

using namespace opbook;
using namespace opbook::ch28;

TEST_CASE("design D launched early waits for what it reads", "[gpu][sanitize]") {
  require_gpu();
  for (const std::int64_t tokens : {1, 8}) {
    for (const Dtype dtype : {Dtype::bfloat16, Dtype::float16}) {
      RunArguments a;
      a.sizes.tokens = tokens;
      a.options.dtype = dtype;
      REQUIRE(tokens * (a.sizes.q_heads + a.sizes.kv_heads) <= our_few_rows);
      require_waits_for_inputs(make_problem(a));
    }
  }
}
