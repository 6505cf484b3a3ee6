#pragma once

// What the errata do with plans: look into them, charge a tensor otherwise, and lay two of them
// side by side.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ch13_norm_rope/errata.hpp"
#include "common/ledger.hpp"

namespace opbook::ch13 {

/// What a plan spends on the tensor of that name: its bytes, once for every read and write.
std::int64_t bytes_spent_on(std::string_view tensor, const Plan& plan);

/// The tensor of that name as the plan last mentions it; it has no elements where the plan has none
/// such.
Tensor find_tensor(const Plan& plan, std::string_view name);

std::int64_t largest_tensor_bytes(const Plan& plan);

/// The plan with another number of elements charged at every mention of that tensor.
Plan charged(Plan plan, std::string_view tensor, std::int64_t elements);

/// The bytes of pairs of plans, a pair a line.
Figures by_plan(const std::vector<std::pair<std::string, Case>>& cases);

/// Bytes and FLOPs of one operator, kernel by kernel: the unfused ones, their sum, the fused one. A
/// kernel that the book lacks has none in its columns.
Figures by_kernel(const Case& book, const Case& right);

/// One line of by_kernel(); `book` may be nullptr.
FigureLine kernel_line(std::string label, const Kernel* book, const Kernel& right);

}  // namespace opbook::ch13
