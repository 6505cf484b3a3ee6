#pragma once

// What the problems of this chapter's operators are put together from.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ch13_norm_rope/reference.hpp"
#include "ch13_norm_rope/steps.hpp"
#include "common/cuda/device_tensors.hpp"
#include "common/problem.hpp"
#include "common/random.hpp"

namespace opbook::ch13 {

/// Rows of many scales, the first so small that eps decides its result: a wrong eps shows.
inline void fill_rows(Array& x, std::uint64_t seed) {
  fill_activation(x, seed);
  visit_input_dtype(x.dtype(), [&]<class T>() {
    const Row<T> first = x.rows<T>().row(0);
    for (std::int64_t j = 0; j < first.size; ++j) {
      first.data[j] = from_float<T>(to_float(first.data[j]) * 0x1p-10f);
    }
  });
}

inline TensorSpec input(std::string name, Dtype dtype, std::vector<std::int64_t> shape,
                        std::function<void(Array&, std::uint64_t)> fill) {
  return {std::move(name), Role::input, dtype, std::move(shape), std::move(fill)};
}
inline TensorSpec intermediate(std::string name, Dtype dtype, std::vector<std::int64_t> shape) {
  return {std::move(name), Role::intermediate, dtype, std::move(shape), nullptr};
}
inline TensorSpec output(std::string name, Dtype dtype, std::vector<std::int64_t> shape) {
  return {std::move(name), Role::output, dtype, std::move(shape), nullptr};
}

inline void add_check(std::vector<Check>& checks, std::string tensor,
                      reference::Reference reference) {
  checks.push_back({std::move(tensor), std::move(reference.expected), reference.tolerance_ulp});
}
inline std::vector<Check> one_check(std::string tensor, reference::Reference reference) {
  std::vector<Check> checks;
  add_check(checks, std::move(tensor), std::move(reference));
  return checks;
}

/// A problem whose plans are `run`, a generic callable over (backend, plan, tensors): the same
/// source on the fast and on the metered backend, and, with a stream for a backend, on the GPU.
template <class Run>
Problem problem_of(std::string op, Dtype dtype, std::vector<std::int64_t> shape, Case ledger,
                   std::vector<TensorSpec> tensors, Run run) {
  Problem problem;
  problem.op = std::move(op);
  problem.dtype = dtype;
  problem.shape = std::move(shape);
  problem.ledger = std::move(ledger);
  problem.tensors = std::move(tensors);
  problem.run = run;
  problem.replay = run;
  problem.run_on_gpu = [run](opbook::gpu::Stream stream, PlanKind plan,
                             opbook::gpu::DeviceTensors& tensors) { run(stream, plan, tensors); };
  return problem;
}

/// Gives a problem its steps: those of the table, run by `run`, a callable over (kind, stream,
/// plan, tensors), and the fused plan itself, which adds `fused_adds`.
template <class Kind, std::size_t count, class Run>
void add_steps(Problem& problem, const NamedStep<Kind> (&table)[count], const char* fused_adds,
               Run run) {
  for (const NamedStep<Kind>& step : table) {
    problem.steps.push_back({step.name, step.adds,
                             [run, kind = step.kind](opbook::gpu::Stream stream, PlanKind plan,
                                                     opbook::gpu::DeviceTensors& tensors) {
                               run(kind, stream, plan, tensors);
                             }});
  }
  problem.steps.push_back({"fused", fused_adds, problem.run_on_gpu});
}

}  // namespace opbook::ch13
