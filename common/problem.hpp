#pragma once

// An operator at one size, ready to be run, counted, checked and timed: what verify_problem.hpp and
// bench_problem.hpp need to know about it, and nothing that only its chapter does.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/array.hpp"
#include "common/fast.hpp"
#include "common/ledger.hpp"
#include "common/replay.hpp"
#include "common/verify.hpp"

namespace opbook {

enum class PlanKind { unfused, fused };
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

  template <class T>
  Rows<T> rows(std::string_view name) {
    return at(name).rows<T>();
  }
  template <class T>
  Row<T> row(std::string_view name) {
    return at(name).row<T>();
  }

 private:
  std::map<std::string, Array, std::less<>> arrays_;
};

/// What a kernel's output must be: by the double-precision reference within a tolerance, or, where
/// `bits` is there, to the bit.
struct Check {
  std::string tensor;
  Expected expected;
  double tolerance_ulp = 0.5;
  std::shared_ptr<const Array> bits;
};
Verdict judge(const Check& check, const Tensors& tensors);

struct Problem {
  std::string op;
  Dtype dtype = Dtype::float32;
  std::vector<std::int64_t> shape;  ///< of x
  Case ledger;                      ///< exact convention
  std::vector<TensorSpec> tensors;

  std::function<void(Fast&, PlanKind, Tensors&)> run;
  std::function<void(Metered&, PlanKind, Tensors&)> replay;
  /// The checks of one kernel, by its name in the ledger, on the inputs that it really got; may
  /// fill witnesses. The fused plan has the one kernel "fused".
  std::function<std::vector<Check>(PlanKind, std::string_view kernel, Tensors&)> expect;

  /// The same operator, columns and options with another number of rows.
  std::function<Problem(std::int64_t rows)> with_rows;

  const Plan& plan(PlanKind kind) const {
    return kind == PlanKind::fused ? ledger.fused : ledger.unfused;
  }
};

/// Fills every input from `seed`.
void fill_inputs(const Problem& problem, Tensors& tensors, std::uint64_t seed);
/// Poisons all that the operator is to write.
void poison_results(const Problem& problem, Tensors& tensors);

/// Runs one plan on the metered backend; the counts of its kernels, in order.
std::vector<KernelCount> replay_problem(const Problem& problem, PlanKind plan, Tensors& tensors);

}  // namespace opbook
