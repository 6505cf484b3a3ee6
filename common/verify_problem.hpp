#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/problem.hpp"

namespace opbook {

/// One line of a verification: a kernel's output against the reference, or replay against ledger.
struct Finding {
  std::string plan;
  std::string kernel;
  std::string tensor;  ///< empty for a finding about bytes or FLOPs
  double worst_ulp = 0;
  double tolerance_ulp = 0;
  bool pass = false;
  std::string detail;  ///< what is wrong; empty where nothing is
};

/// What a run is held against besides the reference: on the CPU, replay; on the GPU, a second run.
enum class Twin { replay, second_run };

/// Runs both plans on the device under test and holds every kernel's output against the reference,
/// on the inputs that the kernel really got. Inputs must come out untouched, guards intact. Then
/// everything is made once more, to the same bits: by replay, which must also count the exact
/// ledger's bytes and FLOPs, rows up to 32 KiB not fetched twice; or by a second run. `tensors`
/// holds the inputs, and afterwards the fused plan's outputs.
std::vector<Finding> verify_problem(const Problem& problem, Tensors& tensors, const Run& run,
                                    Twin twin);

/// The same on the fast backend, against replay.
std::vector<Finding> verify_problem(const Problem& problem, Tensors& tensors, Fast& fast);

/// The largest error, in ulps, of the unfused plan's final outputs against the fused plan's
/// reference: what storing intermediates costs in accuracy. Not a verdict. Leaves results in
/// `tensors`.
double unfused_end_to_end_ulp(const Problem& problem, Tensors& tensors, const Run& run);

bool all_pass(const std::vector<Finding>& findings);

}  // namespace opbook
