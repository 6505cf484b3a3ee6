#pragma once

#include "common/cli.hpp"

namespace opbook::ch28 {

/// `ledger [--tokens --q-heads --kv-heads --head-dim --bandwidth-gbs --sm-count --on-chip-kb
/// --rows-per-block N] [--rope-dim N] [--machine NAME|FILE] [--convention book|exact] [--json]`:
/// the operator and its designs on paper. A machine brings bandwidth, SMs and budget, which flags
/// override. A design over its budget makes the exit code 1.
Subcommand ledger_subcommand();

}  // namespace opbook::ch28
