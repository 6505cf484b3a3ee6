#pragma once

#include "common/cli.hpp"

namespace opbook::ch13 {

/// `errata [--json]`: where the book's chapter contradicts itself, and what is right, in figures.
Subcommand errata_subcommand();

}  // namespace opbook::ch13
