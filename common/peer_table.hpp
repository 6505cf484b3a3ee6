#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "common/results.hpp"

namespace opbook {

/// Where other libraries' results lie (scripts/peers.py): beside ch13.json, and beside the
/// ch13_cuda.json that a bench leaves, ch13_peers.json.
std::filesystem::path peers_path(const std::filesystem::path& results);

/// The peers beside `path`; empty where there are none, or none of `machine`. Throws ArgumentError
/// where the file cannot be read.
std::optional<Results> read_peers(const std::filesystem::path& path, const MachineInfo& machine);

/// Fused plans against peers, a line for each cell that both have: everybody's share of the copy in
/// percent, "-" where a peer has no such operator or got no time; the fastest peer; and our share
/// over its share, with bounds that both shares' bounds allow. Why a peer got no time stands below.
/// Empty where the two have no cell in common.
std::string render_peers(const Results& results, const Results& peers);

}  // namespace opbook
