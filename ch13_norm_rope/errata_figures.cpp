#include "ch13_norm_rope/errata_figures.hpp"

#include <algorithm>

#include "common/checked.hpp"

namespace opbook::ch13 {
namespace {

/// `visit` on every mention of a tensor, read or written.
template <class SomePlan, class Visit>
void each_mention(SomePlan& plan, Visit visit) {
  for (auto& kernel : plan.kernels) {
    for (auto& tensor : kernel.reads) visit(tensor);
    for (auto& tensor : kernel.writes) visit(tensor);
  }
}

}  // namespace

std::int64_t bytes_spent_on(std::string_view name, const Plan& plan) {
  std::int64_t bytes = 0;
  each_mention(plan, [&](const Tensor& tensor) {
    if (tensor.name == name) bytes = checked_add({bytes, tensor.bytes()});
  });
  return bytes;
}

Tensor find_tensor(const Plan& plan, std::string_view name) {
  Tensor found;
  each_mention(plan, [&](const Tensor& tensor) {
    if (tensor.name == name) found = tensor;
  });
  return found;
}

std::int64_t largest_tensor_bytes(const Plan& plan) {
  std::int64_t largest = 0;
  each_mention(plan, [&](const Tensor& tensor) { largest = std::max(largest, tensor.bytes()); });
  return largest;
}

Plan charged(Plan plan, std::string_view name, std::int64_t elements) {
  each_mention(plan, [&](Tensor& tensor) {
    if (tensor.name == name) tensor.elements = elements;
  });
  return plan;
}

Figures by_plan(const std::vector<std::pair<std::string, Case>>& cases) {
  Figures figures{
      "plan",
      {{"unfused", Unit::megabytes}, {"fused", Unit::megabytes}, {"ratio", Unit::ratio}},
      {}};
  for (const auto& [label, plans] : cases) {
    figures.lines.push_back(
        {label, {plans.unfused.moved_bytes(), plans.fused.moved_bytes(), plans.bytes_ratio()}});
  }
  return figures;
}

Figures by_kernel(const Case& book, const Case& right) {
  Figures figures{
      "kernel",
      {{"book", Unit::bytes}, {"right", Unit::bytes}, {"book", Unit::flop}, {"right", Unit::flop}},
      {}};
  const auto& in_book = book.unfused.kernels;
  for (const Kernel& kernel : right.unfused.kernels) {
    const auto same = std::find_if(in_book.begin(), in_book.end(),
                                   [&](const Kernel& one) { return one.name == kernel.name; });
    figures.lines.push_back(
        kernel_line(kernel.name, same == in_book.end() ? nullptr : &*same, kernel));
  }
  figures.lines.push_back({"unfused, all",
                           {book.unfused.moved_bytes(), right.unfused.moved_bytes(),
                            book.unfused.flops(), right.unfused.flops()}});
  figures.lines.push_back(
      kernel_line("fused", &book.fused.kernels.front(), right.fused.kernels.front()));
  return figures;
}

FigureLine kernel_line(std::string label, const Kernel* book, const Kernel& right) {
  Figure book_bytes, book_flops;
  if (book != nullptr) {
    book_bytes = book->moved_bytes();
    book_flops = book->flops;
  }
  return {std::move(label), {book_bytes, right.moved_bytes(), book_flops, right.flops}};
}

}  // namespace opbook::ch13
