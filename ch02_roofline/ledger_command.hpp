#pragma once

// The program's `ledger` subcommand: where an operator lies under the rooflines of machines.

#include <string_view>

#include "ch02_roofline/ledger.hpp"
#include "common/cli.hpp"

namespace opbook::ch02 {

/// The chapter's operator.
inline constexpr std::string_view op_names[] = {"multiply_add_chain"};

/// The lengths that the ledger shows where none is asked for.
inline constexpr std::int64_t shown_steps[] = {1, 4, 16, 64, 256, 1024, 4096};

/// --n, --k and --dtype; and, of a run alone, --a and --b.
std::vector<Flag> argument_flags();
std::vector<Flag> run_flags();

/// The defaults with the given flags laid over them. Throws ArgumentError, naming the flag, its
/// text and what is allowed.
Arguments parse_arguments(const GivenFlags& given);

/// `ledger [--op multiply_add_chain [--n N] [--k K] [--dtype TYPE] | --bytes B --flops F]
/// [--machine NAME|FILE ...] [--unit UNIT] [--json]`: arithmetic intensity and, for each machine,
/// the side of its balance point and the time at its roof (us); without an operator, the chain at
/// several lengths.
Subcommand ledger_subcommand();

}  // namespace opbook::ch02
