// A test of the tests: operators with a fault built in, each of which verification must catch.
// Values catch the wrong results; replay catches those that are right and move too much.

#include "common/test/mutants.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <utility>
#include <vector>

#include "ch28_design/problem.hpp"

namespace opbook::ch28 {
namespace {

std::byte* row_of(Tensors& tensors, const char* name, std::int64_t row) {
  Array& array = tensors.at(name);
  return array.raw() + row * array.cols() * size_of(array.dtype());
}

void swap_rows(Tensors& tensors, const char* name, std::int64_t a, std::int64_t b) {
  Array& array = tensors.at(name);
  std::byte* const first = row_of(tensors, name, a);
  std::swap_ranges(first, first + array.cols() * size_of(array.dtype()), row_of(tensors, name, b));
}

void swap_tensors(Tensors& tensors, const char* a, const char* b) {
  Array &first = tensors.at(a), &second = tensors.at(b);
  std::swap_ranges(first.raw(), first.raw() + first.bytes(), second.raw());
}

void one_step_off(Tensors& tensors, const char* name) {
  Array& array = tensors.at(name);
  ++*reinterpret_cast<std::uint8_t*>(array.raw() + array.elements() / 2 * size_of(array.dtype()));
}

/// The last columns of each head left as they were before: what a vector loop without a tail does.
void skip_tail(Tensors& tensors) {
  Array& codes = tensors.at("codes");
  for (std::int64_t i = 0; i < codes.row_count(); ++i) {
    std::memset(row_of(tensors, "codes", i) + codes.cols() - 3, 0xFF, 3);
  }
}

RunArguments of_design(Design design) {
  RunArguments a;
  a.design = design;
  a.sizes.tokens = 30;
  a.sizes.q_heads = 6;
  a.sizes.kv_heads = 3;  // nine rows a token: no design's blocks are those of another
  a.sizes.rope_dim = 64;
  return a;
}

std::vector<Mutant> faulty_mutants(const RunArguments& a) {
  const Problem right = make_problem(a);
  const auto with = [&](auto change) {
    RunArguments changed = a;
    change(changed);
    return make_problem(changed);
  };
  std::vector<Mutant> mutants;
  mutants.push_back(damaged("a skipped tail", right, skip_tail));
  mutants.push_back(damaged("two heads' codes exchanged", right,
                            [](Tensors& t) { swap_rows(t, "codes", 0, 1); }));
  mutants.push_back(
      damaged("a code off by one", right, [](Tensors& t) { one_step_off(t, "codes"); }));
  mutants.push_back(
      damaged("a scale off by one ulp", right, [](Tensors& t) { one_step_off(t, "scale"); }));
  mutants.push_back(damaged(
      "the weights of q and k exchanged", right,
      [](Tensors& t) { swap_tensors(t, "q_weight", "k_weight"); }, true));
  mutants.push_back(
      damaged("cosines for sines", right, [](Tensors& t) { swap_tensors(t, "cos", "sin"); }, true));
  mutants.push_back(damaged(
      "the next token's angles", right, [](Tensors& t) { swap_rows(t, "cos", 3, 4); }, true));
  mutants.push_back(swapped("a wrong eps", right, with([](RunArguments& r) { r.eps = 1e-5f; })));
  mutants.push_back(swapped("a head too many for k", right, with([](RunArguments& r) {
                              r.sizes.q_heads = 5;
                              r.sizes.kv_heads = 4;
                            })));
  return mutants;
}

std::vector<Mutant> wasteful_mutants(const RunArguments& a) {
  const Problem right = make_problem(a);
  std::vector<Mutant> mutants;
  mutants.push_back(with_scratch_tensor(right));
  for (const Design other : all_designs) {
    if (other == a.design) continue;
    RunArguments changed = a;
    changed.design = other;
    mutants.push_back(swapped("another design's blocks", right, make_problem(changed)));
  }
  if (a.design == Design::B) {
    RunArguments changed = a;
    --changed.sizes.rows_per_block;
    mutants.push_back(swapped("blocks of a row less", right, make_problem(changed)));
  }
  return mutants;
}

}  // namespace

TEST_CASE("designs without a fault pass at the mutants' shapes", "[mutants]") {
  for (const Design design : all_designs) CHECK_FALSE(is_caught(make_problem(of_design(design))));
}

TEST_CASE("every mutant of every design is caught", "[mutants]") {
  for (const Design design : all_designs) {
    const RunArguments a = of_design(design);
    std::vector<Mutant> mutants = faulty_mutants(a);
    for (Mutant& mutant : wasteful_mutants(a)) mutants.push_back(std::move(mutant));
    for (const Mutant& mutant : mutants) {
      INFO("design " << name_of(design) << ": " << mutant.name);
      CHECK(is_caught(mutant.problem));
    }
  }
}

}  // namespace opbook::ch28
