#pragma once

#include "ch02_roofline/ledger.hpp"
#include "common/chapter.hpp"

namespace opbook::ch02 {

/// The chain at one size, ready to run on either device. Throws ArgumentError as
/// multiply_add_chain_case() does.
Problem chain_problem(const Arguments& arguments);

/// Throws ArgumentError, naming n, what it needs and what there is, where x, y and the reference
/// that they are held against do not fit `memory_bytes`.
void require_memory(const Arguments& arguments, std::int64_t memory_bytes, const char* whose);

/// This chapter, as the subcommands verify, bench and show see it.
Chapter chapter();

}  // namespace opbook::ch02
