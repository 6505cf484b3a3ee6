#pragma once

#include "common/exercise_views.hpp"

namespace opbook {
struct Exercise;
}

namespace opbook::ch13::fuse_rms_norm {

const Exercise& exercise();
const Submission& solution();

/// From a function (x, w, y, eps).
template <class Function>
Submission submission(Function rms_norm) {
  return submission_of([=](const auto& views) {
    rms_norm(views.input_matrix("x"), views.input_vector("w"), views.output_matrix("y"),
             views.scalar("eps"));
  });
}

/// Grades and prints; returns main's exit code.
int grade_and_print(const Submission& submission);

}  // namespace opbook::ch13::fuse_rms_norm
