#pragma once

// Problems with a fault built in, which verification must catch: what the tests of the tests share.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/verify_problem.hpp"

namespace opbook {

struct Mutant {
  std::string name;
  Problem problem;
};

/// A mutant that runs, in both plans, what `other` runs, and is held to what `right` promises.
inline Mutant swapped(std::string name, Problem right, const Problem& other) {
  right.run = other.run;
  right.replay = other.replay;
  return {std::move(name), std::move(right)};
}

/// A mutant that runs as it should and then damages an output; or, `before` as well, an input,
/// which a damage that is its own inverse restores.
inline Mutant damaged(std::string name, const Problem& right, std::function<void(Tensors&)> damage,
                      bool before = false) {
  Problem mutant = right;
  const auto faulty = [=](const auto& run) {
    return [=](auto& backend, PlanKind plan, Tensors& tensors) {
      if (before) damage(tensors);
      run(backend, plan, tensors);
      damage(tensors);
    };
  };
  mutant.run = faulty(right.run);
  mutant.replay = faulty(right.replay);
  return {std::move(name), std::move(mutant)};
}

/// A mutant whose values are right and whose traffic is not: `excess` is added after each row.
inline Mutant wasteful(std::string name, const Problem& right, Metered::AfterRow excess) {
  Problem mutant = right;
  mutant.replay = [=](Metered& metered, PlanKind plan, Tensors& tensors) {
    Metered wasting = metered.with(excess);
    right.replay(wasting, plan, tensors);
  };
  return {std::move(name), std::move(mutant)};
}

/// A wasteful mutant with a tensor of the input's size, row by row written and read back; a new one
/// for each kernel, none given back before the end.
inline Mutant with_scratch_tensor(const Problem& right) {
  using Memory = std::shared_ptr<std::vector<std::byte>>;
  const auto scratch_tensor = [kept = std::vector<Memory>(), next = std::size_t{0}](
                                  Meter& meter, const void*, std::int64_t bytes,
                                  std::int64_t rows_left) mutable {
    if (next == 0) {
      kept.push_back(std::make_shared<std::vector<std::byte>>(bytes * (rows_left + 1)));
      meter.declare("scratch", kept.back()->data(), bytes * (rows_left + 1));
    }
    meter.write(kept.back()->data() + next, bytes);
    meter.read(kept.back()->data() + next, bytes);
    next = rows_left == 0 ? 0 : next + bytes;
  };
  return wasteful("a tensor of the input's size between", right, scratch_tensor);
}

/// Whether verification finds the fault.
inline bool is_caught(const Problem& problem) {
  Tensors tensors(problem.tensors);
  fill_inputs(problem, tensors, 5);
  Fast fast;
  return !all_pass(verify_problem(problem, tensors, fast));
}

}  // namespace opbook
