// The program that grades what is written in OPBOOK_SUBMISSION.

#include OPBOOK_SUBMISSION

#include "ch13_norm_rope/exercises/grading/01_fuse_rms_norm.hpp"

int main() {
  using namespace opbook::ch13;
  return fuse_rms_norm::grade_and_print(
      fuse_rms_norm::submission([](auto... arguments) { ::rms_norm(arguments...); }));
}
