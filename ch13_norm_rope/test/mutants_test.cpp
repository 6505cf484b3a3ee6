// A test of the tests: operators with a fault built in, each of which verification must catch, at
// shapes of more than 1 MiB with rows under 32 KiB. Values catch the wrong results; replay catches
// the two that are right and move too much.

#include "common/test/mutants.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "ch13_norm_rope/operators.hpp"
#include "common/build_kind.hpp"

using namespace opbook;
using namespace opbook::ch13;

namespace {

const TensorSpec& first_output(const Problem& problem) {
  return *std::find_if(problem.tensors.begin(), problem.tensors.end(),
                       [](const TensorSpec& spec) { return spec.role == Role::output; });
}

/// The last elements of each row left as they were before: what a vector loop without a tail does.
void skip_tail(Tensors& tensors, const TensorSpec& spec) {
  Array& array = tensors.at(spec.name);
  const std::int64_t row = array.cols() * size_of(array.dtype());
  const std::int64_t tail = std::min<std::int64_t>(row, 3 * size_of(array.dtype()));
  for (std::int64_t i = 0; i < array.row_count(); ++i) {
    std::memset(array.raw() + (i + 1) * row - tail, 0xFF, tail);
  }
}

/// One element one representable step further from zero.
void one_step_off(Tensors& tensors, const TensorSpec& spec) {
  Array& array = tensors.at(spec.name);
  std::byte* const at = array.raw() + array.elements() / 2 * size_of(array.dtype());
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, size_of(array.dtype()));
  ++bits;
  std::memcpy(at, &bits, size_of(array.dtype()));
}

void swap_first_rows(Tensors& tensors, const TensorSpec& spec) {
  Array& array = tensors.at(spec.name);
  const std::int64_t row = array.bytes() / std::max<std::int64_t>(2, array.row_count());
  std::swap_ranges(array.raw(), array.raw() + row, array.raw() + row);
}

/// Rows that make every tensor larger than 1 MiB, and than the cache that replay models. Where each
/// operation is slow, fewer: of faulty values a few show as well.
constexpr std::int64_t real_rows = times_count ? 300 : 100;
constexpr std::int64_t few_rows = times_count ? 300 : 8;

Arguments small_but_real(const Operator& op, std::int64_t rows) {
  Arguments arguments = op.defaults;
  arguments.dtype = Dtype::bfloat16;
  arguments.m = rows;
  arguments.n = 2052;  // no multiple of 32: there is a tail
  arguments.tokens = rows;
  arguments.heads = 16;
  if (op.name == "scale_add") arguments.n = rows * 2667 + 1;
  return arguments;
}

std::vector<Mutant> faulty_mutants_of(const Operator& op) {
  const Arguments arguments = small_but_real(op, few_rows);
  const Problem right = op.make_problem(arguments);
  const auto with = [&](auto change) {
    Arguments changed = arguments;
    change(changed);
    return op.make_problem(changed);
  };
  const TensorSpec output = first_output(right);

  std::vector<Mutant> mutants;
  mutants.push_back(damaged("a skipped tail", right, [=](Tensors& t) { skip_tail(t, output); }));
  mutants.push_back(
      damaged("two rows exchanged", right, [=](Tensors& t) { swap_first_rows(t, output); }));
  mutants.push_back(
      damaged("one element one step off", right, [=](Tensors& t) { one_step_off(t, output); }));
  const bool norm = op.name.find("norm") != std::string_view::npos;
  if (norm) {
    mutants.push_back(swapped("a wrong eps", right, with([](Arguments& a) { a.eps = 1e-5f; })));
  }
  if (op.name == "rms_norm") {
    const auto rounded_twice = [](Arguments& a) { a.rounding = Rounding::before_weight; };
    mutants.push_back(swapped("a rounding left out", with(rounded_twice), right));
    mutants.push_back(swapped("a rounding too many", right, with(rounded_twice)));
  }
  if (op.name.find("rms_norm") != std::string_view::npos) {
    mutants.push_back(swapped("the weight's offset left out",
                              with([](Arguments& a) { a.weight_offset = 1; }), right));
  }
  for (const TensorSpec& spec : right.tensors) {
    if (spec.name == "scale") {
      mutants.push_back(
          damaged("a scale off by one ulp", right, [=](Tensors& t) { one_step_off(t, spec); }));
    }
  }
  return mutants;
}

std::vector<Mutant> wasteful_mutants_of(const Problem& right) {
  // Once through, then again over all that was read: by then nothing of it is in the cache.
  using RowBytes = std::pair<const void*, std::int64_t>;
  const auto second_pass = [rows = std::vector<RowBytes>()](Meter& meter, const void* row,
                                                            std::int64_t bytes,
                                                            std::int64_t rows_left) mutable {
    if (rows_left > 0) {  // the last may be shorter than the others: it is left out
      rows.emplace_back(row, bytes);
      return;
    }
    for (const auto& [again, size] : rows) meter.read(again, size);
    rows.clear();
  };
  std::vector<Mutant> mutants;
  mutants.push_back(wasteful("a second pass over the whole input", right, second_pass));
  mutants.push_back(with_scratch_tensor(right));
  return mutants;
}

}  // namespace

TEST_CASE("operators without a fault pass at the mutants' shapes", "[mutants]") {
  for (const Operator& op : operators()) {
    INFO(op.name);
    CHECK_FALSE(is_caught(op.make_problem(small_but_real(op, few_rows))));
  }
}

TEST_CASE("every mutant of every operator is caught", "[mutants]") {
  for (const Operator& op : operators()) {
    std::vector<Mutant> mutants = faulty_mutants_of(op);
    CHECK(mutants.size() >= 3);
    if (times_count || &op == &operators().front()) {  // one, where each operation is slow
      for (Mutant& mutant : wasteful_mutants_of(op.make_problem(small_but_real(op, real_rows)))) {
        mutants.push_back(std::move(mutant));
      }
    }
    for (const Mutant& mutant : mutants) {
      INFO(op.name << ": " << mutant.name);
      CHECK(is_caught(mutant.problem));
    }
  }
}
