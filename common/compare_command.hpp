#pragma once

#include "common/cli.hpp"

namespace opbook {

/// `compare MINE.json [RECORDED.json] [--json]`: results against results; RECORDED is by default
/// what is recorded of the machine that MINE names, in the chapter that MINE's file name begins
/// with. Exit code 1 where a row is SLOWER, or where no row of the one belongs to one of the other.
///
/// `compare A.npy B.npy [--dtype D] [--ulps N] [--json]`: an output against the one that is
/// expected. Exit code 1 where they differ.
Subcommand compare_subcommand();

}  // namespace opbook
