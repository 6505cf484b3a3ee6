#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ch28_design/ledger.hpp"
#include "common/cli.hpp"

namespace opbook::ch28 {

/// `ledger [--tokens --q-heads --kv-heads --head-dim --bandwidth-gbs --sm-count --on-chip-kb
/// --rows-per-block N] [--rope-dim N] [--machine NAME|FILE] [--convention book|exact] [--json]`:
/// the operator and its designs on paper. A machine brings bandwidth, SMs and budget, which flags
/// override. A design over its budget makes the exit code 1.
Subcommand ledger_subcommand();

/// The flags of the sizes that a run has too: all but bandwidth, SMs and budget.
std::vector<Flag> size_flags();

/// The defaults with the given ones of size_flags() laid over them. Throws ArgumentError, naming
/// flag and text, for a value that cannot be read; how sizes go together is left to the ledger.
Arguments parse_sizes(const GivenFlags& given);

/// A refusal that names arguments, in the words of somebody who typed flags. Where a figure passes
/// int64, all sizes are named.
std::string in_flags(std::string_view refusal, const Arguments& arguments);

}  // namespace opbook::ch28
