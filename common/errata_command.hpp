#pragma once

#include <functional>
#include <vector>

#include "common/cli.hpp"
#include "common/errata.hpp"

namespace opbook {

/// `errata [--json]`: where the book's chapter contradicts itself, and what is right, in figures.
Subcommand errata_subcommand(std::function<std::vector<Erratum>()> errata);

}  // namespace opbook
