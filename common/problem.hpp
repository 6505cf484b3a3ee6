#pragma once

// An operator at one size, ready to be run, counted, checked and timed: what verify_problem.hpp and
// bench_problem.hpp need to know about it, and nothing that only its chapter does.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/array.hpp"
#include "common/cuda/device.hpp"
#include "common/fast.hpp"
#include "common/ledger.hpp"
#include "common/replay.hpp"
#include "common/verify.hpp"

namespace opbook {

namespace gpu {
class DeviceTensors;
}

/// `witnessed` is the fused plan that fills the witnesses besides.
enum class PlanKind { unfused, fused, witnessed };
/// Those that are counted and timed.
inline constexpr PlanKind both_plans[] = {PlanKind::unfused, PlanKind::fused};
std::string_view name_of(PlanKind plan);

/// A witness is no part of the operator: room for what a check wants to look at besides.
enum class Role { input, intermediate, output, witness };

/// One tensor of an operator; `fill` makes a random input of it from a seed.
struct TensorSpec {
  std::string name;
  Role role = Role::input;
  Dtype dtype = Dtype::float32;
  std::vector<std::int64_t> shape;
  std::function<void(Array&, std::uint64_t seed)> fill;
};

/// The arrays of one run, by name.
class Tensors {
 public:
  /// Makes every array; inputs are left poisoned. Bases lie `offset_elements` off a 64-byte
  /// boundary (array.hpp).
  explicit Tensors(const std::vector<TensorSpec>& specs, std::int64_t offset_elements = 0);

  /// Throws ArgumentError for a name that is not there.
  Array& at(std::string_view name);
  const Array& at(std::string_view name) const;
  auto begin() const { return arrays_.begin(); }
  auto end() const { return arrays_.end(); }

  /// From now on rows() reaches a second copy of each matrix, whose rows lie `gap` elements apart:
  /// the same operator on strided views. scatter() copies the arrays into it, gather() back.
  void pad_rows(std::int64_t gap);
  void scatter();
  void gather();
  /// False once anything wrote between the rows of a padded copy, or beyond its ends.
  bool gaps_intact() const;

  template <class T>
  Rows<T> rows(std::string_view name) {
    Array& array = at(name);
    const auto found = padded_.find(name);
    if (found == padded_.end()) return array.rows<T>();
    Array& copy = found->second;
    return strided_rows(copy.data<T>(), array.row_count(), array.cols(), copy.cols());
  }
  template <class T>
  Row<T> row(std::string_view name) {
    return at(name).row<T>();
  }

 private:
  std::map<std::string, Array, std::less<>> arrays_;
  std::map<std::string, Array, std::less<>> padded_;
};

/// What a kernel's output must be: by the double-precision reference within a tolerance, or, where
/// `bits` is there, to the bit.
struct Check {
  std::string tensor;
  Expected expected;
  double tolerance_ulp = 0.5;
  std::shared_ptr<const Array> bits = nullptr;
};
Verdict judge(const Check& check, const Tensors& tensors);

/// Runs a plan on the device under test and leaves what it wrote in the tensors.
using Run = std::function<void(PlanKind, Tensors&)>;

/// A way to run the fused plan on a GPU, for readers: of an operator's steps each adds one idea to
/// the one before.
struct Step {
  std::string name;  ///< what --plan calls it: "naive"
  std::string adds;  ///< the idea, in a few words
  /// As Problem::run_on_gpu, for the fused and the witnessed plan.
  std::function<void(gpu::Stream, PlanKind, gpu::DeviceTensors&)> run_on_gpu;
};

struct Problem {
  std::string op;
  Dtype dtype = Dtype::float32;
  std::vector<std::int64_t> shape;  ///< of x
  Case ledger;                      ///< exact convention
  /// The fused plan's kernel where it runs as many calls, each charged what it touches itself: what
  /// replay of it counts. Without it, the ledger's.
  std::optional<Kernel> fused_by_call = std::nullopt;
  std::vector<TensorSpec> tensors;

  std::function<void(Fast&, PlanKind, Tensors&)> run;
  std::function<void(Metered&, PlanKind, Tensors&)> replay;
  /// Queues a plan's kernels on the stream; empty where there are none.
  std::function<void(gpu::Stream, PlanKind, gpu::DeviceTensors&)> run_on_gpu;
  /// From the simplest to the fused plan itself; empty where the operator has none. A step that
  /// does not take this size or these options throws ArgumentError when it is run.
  std::vector<Step> steps;
  /// The checks of one kernel, by its name in the ledger, on the inputs that it really got. May use
  /// `run`, which ran the plan, to run the witnessed one besides. The fused plan has the one kernel
  /// "fused".
  std::function<std::vector<Check>(PlanKind, std::string_view kernel, Tensors&, const Run& run)>
      expect;

  /// The same operator, columns and options with another number of rows.
  std::function<Problem(std::int64_t rows)> with_rows;

  /// Bytes of one row of x: an operator without rows works on 4096 elements at a time.
  std::int64_t row_bytes() const {
    const std::int64_t columns =
        shape.size() == 1 ? std::min<std::int64_t>(shape[0], 4096) : shape.back();
    return columns * size_of(dtype);
  }
  const Plan& plan(PlanKind kind) const {
    return kind == PlanKind::unfused ? ledger.unfused : ledger.fused;
  }
  /// The plan as replay must count it.
  Plan replayed_plan(PlanKind kind) const {
    const bool by_call = kind == PlanKind::fused && fused_by_call;
    return by_call ? Plan{{*fused_by_call}} : plan(kind);
  }
};

/// The problem whose fused plan is, on the GPU, step `i` of this one, the only one left in `steps`:
/// verified and timed as any other is.
Problem step_of(const Problem& problem, std::size_t i);

/// Fills every input from `seed`.
void fill_inputs(const Problem& problem, Tensors& tensors, std::uint64_t seed);
/// Poisons all that the operator is to write.
void poison_results(const Problem& problem, Tensors& tensors);

/// Runs plans on the fast backend. Both must outlive the result.
Run run_on_cpu(const Problem& problem, Fast& fast);

/// Runs plans on the GPU: copies all tensors there, poison included, waits, and copies them back.
/// Throws CheckFailed, naming the tensor, where memory beside one was written, DeviceUnavailable
/// where the problem has no kernels. Both must outlive the result.
Run run_on_device(const Problem& problem, gpu::DeviceTensors& device);

/// Runs one plan on the metered backend; the counts of its kernels, in order. `curve`, if given,
/// sees the whole plan's trace.
std::vector<KernelCount> replay_problem(const Problem& problem, PlanKind plan, Tensors& tensors,
                                        CacheCurve* curve = nullptr);

}  // namespace opbook
