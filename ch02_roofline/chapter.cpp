#include "ch02_roofline/chapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ch02_roofline/ledger_command.hpp"
#include "ch02_roofline/multiply_add_chain.hpp"
#include "ch02_roofline/reference.hpp"
#include "common/cuda/device_tensors.hpp"
#include "common/error.hpp"
#include "common/machine_info.hpp"
#include "common/random.hpp"

namespace opbook::ch02 {
namespace {

// Of a plan the CPU's or the GPU's: by what it runs on, a backend or a stream.
using cpu::multiply_add_chain, gpu::multiply_add_chain;
using cpu::multiply_add_chain_unfused, gpu::multiply_add_chain_unfused;

/// Of both signs and of many sizes.
void fill_x(Array& x, std::uint64_t seed) {
  fill_normal_like(x, seed);
}

/// What a kernel leaves in y. An unfused step's y is gone with the next one, but for the last.
std::vector<Check> expected_y(const Arguments& a, PlanKind plan, std::string_view kernel,
                              const Array& x) {
  if (plan == PlanKind::fused) {
    return {{"y", reference::in_double(x, a.a, a.b, a.k), 1.0},
            {"y", reference::by_definition(x, a.a, a.b, a.k, false), 0.0}};
  }
  if (kernel != step_name(a.k)) return {};
  return {{"y", reference::by_definition(x, a.a, a.b, a.k, true), 0.0}};
}

/// Elements that take the place of a row: fewer where the chain is long, so that as many rows take
/// about as long to be checked and replayed.
std::int64_t row_elements(std::int64_t k) {
  return std::max<std::int64_t>(16, 4096 / k);
}

/// n and dtype that a reader's file brings along; a flag that says otherwise is refused.
void take_file(const Files& files, const GivenFlags& given, Arguments& arguments) {
  for (const auto& [name, file] : files) {
    if (file.shape().size() != 1) {
      throw ArgumentError(
          fmt::format("--{}: got rank {}; allowed: rank 1", name, file.shape().size()));
    }
    if (given.contains("--n") && arguments.n != file.elements()) {
      throw ArgumentError(fmt::format("--n: got {}; allowed: {}, as the files have it", arguments.n,
                                      file.elements()));
    }
    if (file.elements() < 1) {
      throw ArgumentError("--n: got 0 from the files; allowed: a whole number above zero");
    }
    arguments.n = file.elements();
    arguments.dtype = file.dtype();
  }
}

Problem make_problem(const std::string& op, const GivenFlags& given, const Files& files) {
  parse_choice("--op", op, op_names);
  Arguments arguments = parse_arguments(given);
  take_file(files, given, arguments);
  require_memory(arguments, describe_cpu().memory_bytes, "this machine");
  if (chosen_device(given) == Device::cuda) {
    require_memory(arguments, describe_device().memory_bytes, "the GPU");
  }
  return chain_problem(arguments);
}

/// Around a register, a block of them, and a piece of the vector; from one step to many.
std::vector<Problem> verification_problems() {
  constexpr std::pair<std::int64_t, std::int64_t> sizes[] = {
      {1, 1},   {2, 3},   {3, 2},    {7, 5},     {31, 64},  {33, 1},    {95, 2},     {97, 7},
      {513, 4}, {769, 1}, {4095, 2}, {4097, 17}, {9001, 3}, {40000, 6}, {513, 1000}, {64, 4096}};
  std::vector<Problem> problems;
  for (const Dtype dtype : dtypes) {
    for (const auto& [n, k] : sizes) {
      problems.push_back(chain_problem({.n = n, .k = k, .dtype = dtype}));
    }
  }
  return problems;
}

/// A chain of each dtype that moves `bytes`, fused.
std::vector<Problem> benchmark_problems(std::int64_t bytes) {
  std::vector<Problem> problems;
  for (const Dtype dtype : dtypes) {
    const std::int64_t n = std::max<std::int64_t>(1, bytes / (2 * size_of(dtype)));
    problems.push_back(chain_problem({.n = n, .k = 16, .dtype = dtype}));
  }
  return problems;
}

/// Before, about at and beyond the bend.
std::vector<Problem> device_benchmark_problems(bool quick) {
  std::vector<Problem> problems;
  for (const Dtype dtype : dtypes) {
    if (quick && dtype != Dtype::float32) continue;
    for (const std::int64_t k : {1, 16, 64}) {
      problems.push_back(chain_problem({.n = 1 << 26, .k = k, .dtype = dtype}));
    }
  }
  return problems;
}

}  // namespace

Problem chain_problem(const Arguments& a) {
  const auto run = [=](auto& backend, PlanKind plan, auto& t) {
    visit_input_dtype(a.dtype, [&]<class T>() {
      const auto x = t.template row<T>("x"), y = t.template row<T>("y");
      if (plan == PlanKind::fused) {
        multiply_add_chain(backend, x, a.a, a.b, a.k, y);
      } else {
        multiply_add_chain_unfused(backend, x, a.a, a.b, a.k, y);
      }
    });
  };
  Problem problem;
  problem.op = op_names[0];
  problem.dtype = a.dtype;
  problem.shape = {a.n};
  problem.ledger = multiply_add_chain_case(a);
  problem.tensors = {{"x", Role::input, a.dtype, {a.n}, fill_x},
                     {"y", Role::output, a.dtype, {a.n}, nullptr}};
  problem.run = run;
  problem.replay = run;
  problem.run_on_gpu = [run](opbook::gpu::Stream stream, PlanKind plan,
                             opbook::gpu::DeviceTensors& tensors) { run(stream, plan, tensors); };
  problem.expect = [=](PlanKind plan, std::string_view kernel, Tensors& t, const Run&) {
    return expected_y(a, plan, kernel, t.at("x"));
  };
  problem.with_rows = [=](std::int64_t rows) {
    Arguments other = a;
    other.n = rows * row_elements(a.k);
    return chain_problem(other);
  };
  return problem;
}

void require_memory(const Arguments& arguments, std::int64_t memory_bytes, const char* whose) {
  // x, y, a copy of y to compare with, and two numbers in double of the reference.
  const double needed =
      static_cast<double>(arguments.n) * static_cast<double>(3 * size_of(arguments.dtype) + 16);
  if (needed <= static_cast<double>(memory_bytes)) return;
  throw ArgumentError(
      fmt::format("--n: got {}, which needs {:.1f} GB; allowed: what fits the {:.1f} GB of {}",
                  arguments.n, needed / 1e9, static_cast<double>(memory_bytes) / 1e9, whose));
}

Chapter chapter() {
  Chapter chapter;
  chapter.name = "ch02";
  chapter.argument_flags = argument_flags();
  for (const Flag& flag : run_flags()) chapter.argument_flags.push_back(flag);
  chapter.input_names = {"x"};
  chapter.make_problem = make_problem;
  chapter.verification_problems = verification_problems;
  chapter.benchmark_problems = benchmark_problems;
  chapter.device_benchmark_problems = device_benchmark_problems;
  return chapter;
}

}  // namespace opbook::ch02
