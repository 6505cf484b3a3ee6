#pragma once

// Grades an exercise: started? values, bytes, speed, in that order, each only where the one before
// it is right. The submission runs in processes of its own (sandbox.hpp), on memory between guards
// (guarded.hpp).

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/diagnosis.hpp"
#include "common/exercise_views.hpp"
#include "common/ledger.hpp"
#include "common/problem.hpp"

namespace opbook {

/// An exercise at one size.
struct ExerciseCase {
  std::vector<TensorSpec> tensors;  ///< float32 inputs and outputs of rank 1 or 2, x first
  std::map<std::string, float, std::less<>> scalars;
  Kernel ledger;  ///< what it may read and write, exact convention
  /// What each output must be, and mistakes to tell apart where it is not.
  std::function<std::vector<Check>(const Tensors&)> expect;
  std::function<std::vector<Slip>(const Tensors&)> slips;
};

struct Exercise {
  std::vector<ExerciseCase>
      checked;            ///< whose values are held against the reference, in this order
  ExerciseCase counted;   ///< whose bytes are counted: x well beyond the modelled cache
  ExerciseCase timed;     ///< x and y beyond most caches
  std::string when_slow;  ///< advice for who moves the right bytes too slowly
};

enum class Standing {
  done,
  not_started,
  crashed,
  out_of_time,
  out_of_memory,
  wrong,
  too_many_bytes,
  too_slow,
};

struct Grade {
  Standing standing = Standing::done;
  std::string report;  ///< lines that end in newlines; the last ones say what to do
};

struct GradeOptions {
  double seconds = 10;   ///< for one call; six times that for all timed ones
  double enough = 0.80;  ///< of the solution's speed
};

/// `submission` against the exercise, its speed against `solution`'s: paired samples, until it is
/// certain which side of `enough` it is on, or three rounds are over. Speed is left out in builds
/// that are not made for it (build_kind.hpp). Call it with OpenMP set to one thread, or the child
/// processes may not use it.
Grade grade(const Exercise& exercise, const Submission& submission, const Submission& solution,
            const GradeOptions& options = {});

/// Grades and prints: main() of an exercise. Returns its exit code, 0 only where it is done.
int grade_program(const Exercise& exercise, const Submission& submission,
                  const Submission& solution);

}  // namespace opbook
