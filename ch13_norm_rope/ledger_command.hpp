#pragma once

// The program's `ledger` subcommand: this chapter's operators on paper, as a table or as JSON.

#include <string>
#include <string_view>
#include <vector>

#include "ch13_norm_rope/operators.hpp"
#include "common/cli.hpp"

namespace opbook::ch13 {

/// The cases of the book's table, in its order and by its names.
inline constexpr std::string_view book_cases[] = {"scale_add", "rms_norm", "layer_norm", "rope",
                                                  "norm_rope_quant"};

/// The flag that sets a field of Arguments: `--rope-dim` for `rope_dim`.
std::string flag_name(std::string_view argument);

/// The flags that set an operator's arguments, one for each field of Arguments that a reader may
/// set.
std::vector<Flag> argument_flags();

/// `entry`'s defaults with the given flags laid over them. Throws ArgumentError, naming the flag,
/// its text and what is allowed, for a value that cannot be read and for a flag that the operator
/// does not take; how sizes go together is left to entry.make_case().
Arguments parse_arguments(const Operator& entry, const GivenFlags& given);

/// `ledger [--op OP, with its arguments' flags] [--convention book|exact] [--machine NAME|FILE]
/// [--json]`: the book's table of five cases, or one case with its kernels listed. With a machine
/// each plan also has its time at the roof (us) and the side of the balance point that it is on.
Subcommand ledger_subcommand();

}  // namespace opbook::ch13
