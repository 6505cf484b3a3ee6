// The exercise's skeleton, its solution, and the wrong solutions that are kept: each gets the grade
// and the message that helps. (Those that do not compile are ../../../test/test_exercise.py's.)

#include "ch13_norm_rope/exercises/grading/01_fuse_rms_norm.hpp"

#include <omp.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

#include "common/build_kind.hpp"
#include "common/exercise.hpp"
#include "common/grader.hpp"

// Each in a namespace of its own, since all define rms_norm.
namespace skeleton {
#include "ch13_norm_rope/exercises/skeletons/01_fuse_rms_norm.cpp"
}
namespace wrong_row_mixed_up {
#include "ch13_norm_rope/exercises/wrong/01_row_mixed_up.cpp"
}
namespace wrong_tail {
#include "ch13_norm_rope/exercises/wrong/01_tail.cpp"
}
namespace wrong_eps {
#include "ch13_norm_rope/exercises/wrong/01_eps.cpp"
}
namespace wrong_nan {
#include "ch13_norm_rope/exercises/wrong/01_nan.cpp"
}
namespace wrong_not_cleared {
#include "ch13_norm_rope/exercises/wrong/01_not_cleared.cpp"
}
namespace wrong_next_row {
#include "ch13_norm_rope/exercises/wrong/01_next_row.cpp"
}
namespace wrong_out_of_bounds {
#include "ch13_norm_rope/exercises/wrong/01_out_of_bounds.cpp"
}
namespace wrong_before_the_beginning {
#include "ch13_norm_rope/exercises/wrong/01_before_the_beginning.cpp"
}
namespace wrong_endless_loop {
#include "ch13_norm_rope/exercises/wrong/01_endless_loop.cpp"
}
namespace wrong_endless_recursion {
#include "ch13_norm_rope/exercises/wrong/01_endless_recursion.cpp"
}
namespace wrong_out_of_memory {
#include "ch13_norm_rope/exercises/wrong/01_out_of_memory.cpp"
}
namespace wrong_extra_pass {
#include "ch13_norm_rope/exercises/wrong/01_extra_pass.cpp"
}
namespace wrong_columns_first {
#include "ch13_norm_rope/exercises/wrong/01_columns_first.cpp"
}
namespace wrong_unfused {
#include "ch13_norm_rope/exercises/wrong/01_unfused.cpp"
}
namespace wrong_read_back {
#include "ch13_norm_rope/exercises/wrong/01_read_back.cpp"
}
namespace wrong_too_slow {
#include "ch13_norm_rope/exercises/wrong/01_too_slow.cpp"
}

using namespace opbook;
using namespace opbook::ch13;
using Catch::Matchers::ContainsSubstring;

#define SUBMISSION(name) \
  fuse_rms_norm::submission([](auto... arguments) { name::rms_norm(arguments...); })

namespace {

Grade graded(const Submission& submission, double seconds = 10) {
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const Exercise& exercise = fuse_rms_norm::exercise();
  Grade grade =
      opbook::grade(exercise, submission, fuse_rms_norm::solution(), {.seconds = seconds});
  omp_set_num_threads(threads);
  return grade;
}

void require_grade(const char* name, const Submission& submission, Standing standing,
                   const std::vector<std::string>& says, double seconds = 10) {
  const Grade grade = graded(submission, seconds);
  INFO(name << " gets:\n" << grade.report);
  CHECK(grade.standing == standing);
  for (const std::string& text : says) CHECK_THAT(grade.report, ContainsSubstring(text));
}

#define REQUIRE_GRADE(name, ...) require_grade(#name, SUBMISSION(name), __VA_ARGS__)

}  // namespace

TEST_CASE("exercise 1's skeleton is not started, nor is a function that does nothing") {
  REQUIRE_GRADE(skeleton, Standing::not_started, {"Not started: this is still the skeleton."});
  const Submission idle = fuse_rms_norm::submission([](auto...) {});
  require_grade("idle", idle, Standing::not_started, {"Not started: nothing was written."});
}

TEST_CASE("exercise 1's solution is done: right, with the ledger's bytes, as fast as itself") {
  require_grade("solution", fuse_rms_norm::solution(), Standing::done,
                {"values  right at 6 shapes", "bytes   1,604,000 at [200, 1000], as in the ledger",
                 times_count ? "80 % is enough" : "speed   not graded", "\nDone.\n"});
}

TEST_CASE("exercise 1: wrong values are told apart by what makes them") {
  REQUIRE_GRADE(wrong_nan, Standing::wrong,
                {"at shape [2, 4]: y: NaN in row 0. A NaN comes of the root of a negative number",
                 "y(0, 0): got NaN, expected"});
  REQUIRE_GRADE(wrong_tail, Standing::wrong,
                {"at shape [5, 99]: y: never written: columns 96 to 98 of every row",
                 "a rest where they do not divide 99"});
  REQUIRE_GRADE(wrong_eps, Standing::wrong, {"at shape [2, 4]: y: eps is left out"});
  REQUIRE_GRADE(wrong_row_mixed_up, Standing::wrong, {"at shape [2, 4]: y: wrong in row 1"});
  REQUIRE_GRADE(wrong_not_cleared, Standing::wrong,
                {"at shape [2, 4]: y(0, 0) is read before anything was written to it"});
  REQUIRE_GRADE(wrong_next_row, Standing::wrong,
                {"at shape [2, 4]: x(0, 4) does not exist: x has rows 0 to 1 and columns 0 to 3"});
}

TEST_CASE("exercise 1: neither a crash nor a loop without an end reaches the grader") {
  REQUIRE_GRADE(wrong_out_of_bounds, Standing::crashed,
                {"Crashed at shape [2, 4]: it read beyond the end of x.",
                 "x(0, 4) does not exist: x has rows 0 to 1 and columns 0 to 3"});
  REQUIRE_GRADE(wrong_before_the_beginning, Standing::crashed,
                {"Crashed at shape [2, 4]: it read ", " bytes before the beginning of x.",
                 "x(-1, 0) does not exist"});
  REQUIRE_GRADE(wrong_endless_recursion, Standing::crashed, {"a recursion without an end"});
  REQUIRE_GRADE(wrong_endless_loop, Standing::out_of_time,
                {"Stopped at shape [2, 4]: not finished after 1 s", "A loop without an end?"}, 1);
  if (!address_sanitizer) {
    REQUIRE_GRADE(wrong_out_of_memory, Standing::out_of_memory,
                  {"Out of memory at shape [33, 1025]: it asked for more than 1024 MiB"});
  }
}

TEST_CASE("exercise 1: right values with too many bytes name the tensor that moves them") {
  for (const Submission& twice : {SUBMISSION(wrong_extra_pass), SUBMISSION(wrong_columns_first)}) {
    require_grade("two passes over x", twice, Standing::too_many_bytes,
                  {"values  right at 6 shapes", "Right, but not done: 80", "x is fetched again"});
  }
  REQUIRE_GRADE(wrong_extra_pass, Standing::too_many_bytes,
                {"x       800,000  1,600,000   800,000", "not done: 800,000 bytes too many"});
  REQUIRE_GRADE(wrong_read_back, Standing::too_many_bytes,
                {"y       800,000  1,600,000   800,000", "y is an output, and is read back"});
  if (!address_sanitizer) {
    REQUIRE_GRADE(wrong_unfused, Standing::too_many_bytes,
                  {"your own memory        0  1,600,000  1,600,000",
                   "not done: 2,400,000 bytes too many", "Memory of your own, 800,000 bytes"});
  }
}

TEST_CASE("exercise 1: right values and bytes in many times the solution's time are too slow") {
  if (!times_count) SKIP("this build is not made for speed");
  REQUIRE_GRADE(wrong_too_slow, Standing::too_slow,
                {"bytes   1,604,000 at [200, 1000], as in the ledger",
                 "Right, with the right bytes, but too slow.", "reduction(+ : sum)"});
}
