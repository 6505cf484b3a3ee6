#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/chapter.hpp"

namespace opbook {

/// The command line, this program's own path first, by which `once` runs one plan of what
/// `bench --device cuda` with these flags times: of the operator that they name, or else of the
/// cell (from 0) of the chapter's grid.
std::vector<std::string> once_command(const Chapter& chapter, const GivenFlags& bench_flags,
                                      std::size_t cell, PlanKind plan);

}  // namespace opbook
