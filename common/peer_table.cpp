#include "common/peer_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "common/table.hpp"

namespace opbook {
namespace {

/// "torch.compile" of the plan "peer: torch.compile".
std::string peer_name(const ResultRow& row) {
  constexpr std::string_view prefix = "peer: ";
  return row.plan.starts_with(prefix) ? row.plan.substr(prefix.size()) : row.plan;
}

bool same_cell(const ResultRow& a, const ResultRow& b) {
  return a.op == b.op && a.dtype == b.dtype && a.shape == b.shape && a.device == b.device &&
         a.temperature == b.temperature && a.roof == b.roof;
}

/// Each peer once, in the order of the rows.
std::vector<std::string> names_in(const Results& peers) {
  std::vector<std::string> names;
  for (const ResultRow& row : peers.rows) {
    if (std::find(names.begin(), names.end(), peer_name(row)) == names.end()) {
      names.push_back(peer_name(row));
    }
  }
  return names;
}

bool was_timed(const ResultRow* row) {
  return row != nullptr && std::isfinite(row->share_of_roof);
}

/// What each of `names` did in the cell of `ours`; null where it has no row.
std::vector<const ResultRow*> peers_in_cell(const ResultRow& ours, const Results& peers,
                                            const std::vector<std::string>& names) {
  std::vector<const ResultRow*> found;
  for (const std::string& name : names) {
    const auto is_it = [&](const ResultRow& row) {
      return same_cell(row, ours) && peer_name(row) == name;
    };
    const auto row = std::find_if(peers.rows.begin(), peers.rows.end(), is_it);
    found.push_back(row == peers.rows.end() ? nullptr : &*row);
  }
  return found;
}

/// Null where none was timed.
const ResultRow* fastest_of(const std::vector<const ResultRow*>& rows) {
  const ResultRow* fastest = nullptr;
  for (const ResultRow* const row : rows) {
    if (!was_timed(row)) continue;
    if (fastest == nullptr || row->share_of_roof > fastest->share_of_roof) fastest = row;
  }
  return fastest;
}

std::string share_text(const ResultRow* row) {
  return was_timed(row) ? fixed(100 * row->share_of_roof, 1) : "-";
}

/// Each was timed in a run of its own, against copies of the same bytes in that run: their shares
/// can be divided, their times cannot.
std::string ratio_text(const ResultRow& ours, const ResultRow& peer) {
  return fmt::format("{} [{}, {}]", fixed(ours.share_of_roof / peer.share_of_roof, 2),
                     fixed(ours.share_lo / peer.share_hi, 2),
                     fixed(ours.share_hi / peer.share_lo, 2));
}

}  // namespace

std::filesystem::path peers_path(const std::filesystem::path& results) {
  constexpr std::string_view of_a_bench = "_cuda";
  std::string stem = results.stem().string();
  if (stem.ends_with(of_a_bench)) stem.resize(stem.size() - of_a_bench.size());
  return results.parent_path() / (stem + "_peers.json");
}

std::optional<Results> read_peers(const std::filesystem::path& path, const MachineInfo& machine) {
  const std::filesystem::path file = peers_path(path);
  if (!std::filesystem::exists(file)) return std::nullopt;
  Results peers = read_results(file);
  const bool same = peers.machine.name == machine.name && peers.machine.device == machine.device;
  return same ? std::optional(std::move(peers)) : std::nullopt;
}

std::string render_peers(const Results& results, const Results& peers) {
  const std::vector<std::string> names = names_in(peers);
  std::vector<Column> columns{
      {"op", Align::left}, {"dtype", Align::left}, {"shape", Align::left}, {"ours"}};
  for (const std::string& name : names) columns.push_back({name});
  columns.insert(columns.end(), {{"fastest peer", Align::left}, {"ours / fastest"}});
  Table table(columns);
  std::string notes;
  bool any = false;
  for (const ResultRow& ours : results.rows) {
    if (ours.plan != "fused") continue;
    const std::vector<const ResultRow*> found = peers_in_cell(ours, peers, names);
    if (std::all_of(found.begin(), found.end(), [](const ResultRow* row) { return !row; })) {
      continue;
    }
    any = true;
    const std::string shape = fmt::format("{}", fmt::join(ours.shape, " x "));
    std::vector<std::string> cells{ours.op, ours.dtype, shape, share_text(&ours)};
    for (const ResultRow* const row : found) {
      cells.push_back(share_text(row));
      if (row != nullptr && row->note) {
        notes += fmt::format("{} {} {} {}: {}.\n", row->op, row->dtype, shape, peer_name(*row),
                             *row->note);
      }
    }
    const ResultRow* const fastest = fastest_of(found);
    cells.push_back(fastest != nullptr ? peer_name(*fastest) : "-");
    cells.push_back(fastest != nullptr && was_timed(&ours) ? ratio_text(ours, *fastest) : "-");
    table.add_row(cells);
  }
  if (!any) return "";
  return "fused against peers, each in % of a copy of the same bytes in its own run:\n\n" +
         table.render() + notes;
}

}  // namespace opbook
