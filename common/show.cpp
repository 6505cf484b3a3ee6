#include "common/show.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <system_error>

#include "common/chapter.hpp"
#include "common/error.hpp"
#include "common/peer_table.hpp"
#include "common/table.hpp"

namespace opbook {
namespace {

std::string machine_line(const MachineInfo& machine) {
  if (machine.device == "cuda") {
    return fmt::format("{}, {} SMs, {} MB L2, {} GB memory; {}, driver {}\n", machine.name,
                       machine.sms, machine.llc_bytes / 1000000, machine.memory_bytes / 1000000000,
                       machine.toolkit.empty() ? "CUDA" : machine.toolkit,
                       machine.driver.empty() ? "unknown" : machine.driver);
  }
  return fmt::format("{}, {} cores, {} MB last-level cache, {} GB memory; {}\n", machine.name,
                     machine.cores, machine.llc_bytes / 1000000, machine.memory_bytes / 1000000000,
                     machine.compiler);
}

/// "88 [86, 90]": a share of a roof in percent, with its confidence bounds.
std::string share(double median, double low, double high) {
  return fmt::format("{:.0f} [{:.0f}, {:.0f}]", 100 * median, 100 * low, 100 * high);
}

/// Bytes by replay; of a replay on fewer rows, its difference from those rows' ledger.
std::string replay_text(const ResultRow& row) {
  if (!row.replay_read_bytes || !row.replay_write_bytes) return "";
  const std::int64_t bytes = *row.replay_read_bytes + *row.replay_write_bytes;
  if (!row.replay_shape) return megabytes(bytes);
  const std::int64_t excess = bytes - row.replay_ledger_bytes.value_or(0);
  return excess == 0 ? "= ledger *" : fmt::format("ledger {:+} bytes *", excess);
}

bool any_converts(const Results& results) {
  return std::any_of(results.rows.begin(), results.rows.end(),
                     [](const ResultRow& row) { return row.share_of_converting_copy.has_value(); });
}
std::string converting_share(const ResultRow& row) {
  if (!row.share_of_converting_copy) return "";
  return share(*row.share_of_converting_copy, *row.share_of_converting_copy_lo,
               *row.share_of_converting_copy_hi);
}

/// Whether replay agrees with a ledger of the row's own that is above the ideal bytes.
bool reads_again(const ResultRow& row) {
  return !row.replay_shape && row.replay_ledger_bytes.value_or(row.bytes) > row.bytes;
}

std::string four_columns(const Results& results) {
  const bool converts = any_converts(results);
  const bool counts_l2 = std::any_of(results.rows.begin(), results.rows.end(),
                                     [](const ResultRow& row) { return row.l2_bytes.has_value(); });
  std::vector<Column> columns{{"op", Align::left},   {"dtype", Align::left}, {"shape", Align::left},
                              {"plan", Align::left}, {"ledger MB"},          {"replay MB"},
                              {"counters MB"}};
  if (counts_l2) columns.push_back({"L2 MB"});
  columns.insert(columns.end(), {{"time us"}, {"GB/s"}, {"% of copy"}});
  if (converts) columns.push_back({"% of converting copy"});
  Table table(columns);
  for (const ResultRow& row : results.rows) {
    std::vector<std::string> cells{row.op,
                                   row.dtype,
                                   fmt::format("{}", fmt::join(row.shape, " x ")),
                                   row.temperature == "hot" ? row.plan + ", graph" : row.plan,
                                   megabytes(row.bytes),
                                   replay_text(row),
                                   row.dram_bytes ? megabytes(*row.dram_bytes) : "-"};
    if (counts_l2) cells.push_back(row.l2_bytes ? megabytes(*row.l2_bytes) : "-");
    cells.insert(cells.end(),
                 {fixed(row.median_us, row.median_us < 100 ? 1 : 0), fixed(row.gb_per_s, 1),
                  share(row.share_of_roof, row.share_lo, row.share_hi) +
                      (row.roof == "one read" ? " of one read" : "")});
    if (converts) cells.push_back(converting_share(row));
    table.add_row(cells);
  }
  return table.render();
}

/// Steps in the order in which a reader takes them: what each adds, and by how much the time of the
/// one before is longer than its own.
std::string step_table(const Results& results) {
  Table table({{"op", Align::left},
               {"dtype", Align::left},
               {"shape", Align::left},
               {"step", Align::left},
               {"time us"},
               {"% of copy"},
               {"faster"},
               {"what it adds", Align::left}});
  const ResultRow* before = nullptr;
  for (const ResultRow& row : results.rows) {
    const bool follows = before != nullptr && before->op == row.op && before->dtype == row.dtype &&
                         before->shape == row.shape;
    table.add_row({row.op, row.dtype, fmt::format("{}", fmt::join(row.shape, " x ")), row.plan,
                   fixed(row.median_us, row.median_us < 100 ? 1 : 0),
                   share(row.share_of_roof, row.share_lo, row.share_hi),
                   follows ? fixed(before->median_us / row.median_us, 2) + "x" : "",
                   row.adds.value_or("")});
    before = &row;
  }
  return table.render();
}

/// Where counters are missing, why: each reason once.
std::string counters_lines(const Results& results) {
  if (results.machine.device != "cuda") {
    return "counters: none on a CPU; hardware counters need an NVIDIA GPU.\n";
  }
  std::set<std::string> reasons;
  for (const ResultRow& row : results.rows) {
    if (!row.dram_bytes && row.temperature == "cold")
      reasons.insert(row.counters_note.value_or("not read in this run"));
  }
  std::string text;
  for (const std::string& reason : reasons) text += "counters: " + reason + "\n";
  return text;
}

/// Rows of a graph, a line each; empty where there are none.
std::string graph_table(const Results& results) {
  Table table({{"in a graph", Align::left},
               {"dtype", Align::left},
               {"shape", Align::left},
               {"time us"},
               {"% of one read"}});
  bool any = false;
  for (const ResultRow& row : results.rows) {
    if (row.temperature != "hot") continue;
    table.add_row({row.op, row.dtype, fmt::format("{}", fmt::join(row.shape, " x ")),
                   fixed(row.median_us, 2), share(row.share_of_roof, row.share_lo, row.share_hi)});
    any = true;
  }
  return any ? "\n" + table.render() : "";
}

/// How the rows of a graph were timed.
std::string graph_line(const Results& results) {
  const bool any = std::any_of(results.rows.begin(), results.rows.end(),
                               [](const ResultRow& row) { return row.temperature == "hot"; });
  if (!any) return "";
  return "graph: launch after launch in a CUDA graph, each on data that no cache holds. One read: "
         "a\n"
         "kernel there that reads a single word, launched when the one before it has ended.\n";
}

std::string notes(const Results& results) {
  std::string text;
  for (const ResultRow& row : results.rows) {
    if (!row.note) continue;
    text += fmt::format("{} {} {} {}: {}.\n", row.op, row.dtype, fmt::join(row.shape, " x "),
                        row.plan, *row.note);
  }
  return text;
}

/// Calls f(unfused, fused) for both plans of a problem, which stand one after the other.
template <class F>
void for_each_pair(const Results& results, F f) {
  for (std::size_t i = 0; i + 1 < results.rows.size(); ++i) {
    const ResultRow &unfused = results.rows[i], &fused = results.rows[i + 1];
    if (unfused.plan == "unfused" && fused.plan == "fused" && unfused.op == fused.op) {
      f(unfused, fused);
    }
  }
}
double saved_on_paper(const ResultRow& unfused, const ResultRow& fused) {
  return static_cast<double>(unfused.bytes) / static_cast<double>(fused.bytes);
}

/// Unfused over fused, by bytes and by time. The two agree where both plans run equally close to
/// the roof; where they do not, the shares say which plan gains or loses.
std::string ratios(const Results& results) {
  std::string text;
  for_each_pair(results, [&](const ResultRow& unfused, const ResultRow& fused) {
    const double on_paper = saved_on_paper(unfused, fused);
    const double by_clock = unfused.median_us / fused.median_us;
    const double apart = by_clock / on_paper - 1;
    std::string by_model;
    if (unfused.cache_model_bytes && fused.cache_model_bytes) {
      by_model = fmt::format(", {:.2f}x by the cache model",
                             static_cast<double>(*unfused.cache_model_bytes) /
                                 static_cast<double>(*fused.cache_model_bytes));
    }
    // On a GPU an operator comes in several shapes.
    const std::string shape =
        fused.device == "cuda" ? fmt::format(" {}", fmt::join(fused.shape, " x ")) : "";
    text += fmt::format("{} {}{}: fusion saves {:.2f}x by the ledger{}, {:.2f}x by the clock",
                        fused.op, fused.dtype, shape, on_paper, by_model, by_clock);
    if (std::fabs(apart) <= 0.15) {
      text += ".\n";
    } else {
      text += fmt::format(
          " ({:+.0f} %): the unfused plan moves its bytes at {:.0f} % of the copy, the fused one "
          "at {:.0f} %.\n",
          100 * apart, 100 * unfused.share_of_roof, 100 * fused.share_of_roof);
    }
  });
  return text;
}

}  // namespace

std::string render_results(const Results& results) {
  if (!results.rows.empty() && results.rows.front().adds) {
    return machine_line(results.machine) + "\n" + step_table(results) + notes(results);
  }
  std::string text = machine_line(results.machine) + "\n" + four_columns(results) + "\n";
  text += counters_lines(results);
  text += graph_line(results);
  for (const ResultRow& row : results.rows) {
    if (!row.replay_shape) continue;
    text += fmt::format("* replayed on fewer rows: {} {} on [{}].\n", row.op, row.dtype,
                        fmt::join(*row.replay_shape, ", "));
    break;
  }
  if (std::any_of(results.rows.begin(), results.rows.end(), reads_again)) {
    text += "replay beyond ledger: what the blocks of a design read again of what they share.\n";
  }
  return text + notes(results) + ratios(results);
}

std::string render_pairs(const Results& results) {
  const bool converts = any_converts(results);
  std::vector<Column> columns{{"op", Align::left}, {"dtype", Align::left}, {"shape", Align::left},
                              {"ledger MB"},       {"counters MB"},        {"time us"},
                              {"% of copy"}};
  if (converts) columns.push_back({"% of converting copy"});
  columns.insert(columns.end(), {{"unfused us"}, {"saved: ledger"}, {"clock"}});
  Table table(columns);
  for_each_pair(results, [&](const ResultRow& unfused, const ResultRow& fused) {
    std::vector<std::string> cells{fused.op,
                                   fused.dtype,
                                   fmt::format("{}", fmt::join(fused.shape, " x ")),
                                   megabytes(fused.bytes),
                                   fused.dram_bytes ? megabytes(*fused.dram_bytes) : "-",
                                   fixed(fused.median_us, fused.median_us < 100 ? 1 : 0),
                                   share(fused.share_of_roof, fused.share_lo, fused.share_hi)};
    if (converts) cells.push_back(converting_share(fused));
    cells.insert(cells.end(), {fixed(unfused.median_us, unfused.median_us < 100 ? 1 : 0),
                               fmt::format("{:.2f}x", saved_on_paper(unfused, fused)),
                               fmt::format("{:.2f}x", unfused.median_us / fused.median_us)});
    table.add_row(cells);
  });
  return machine_line(results.machine) + "\n" + table.render() + graph_table(results) +
         graph_line(results);
}

std::filesystem::path default_results_path(const std::string& chapter, Device device) {
  const char* const suffix = device == Device::cuda ? "_cuda.json" : ".json";
  return std::filesystem::path(OPBOOK_SOURCE_DIR) / "build" / "results" / (chapter + suffix);
}

std::filesystem::path latest_results_path(const std::string& chapter) {
  const std::filesystem::path cpu = default_results_path(chapter, Device::cpu);
  const std::filesystem::path cuda = default_results_path(chapter, Device::cuda);
  std::error_code missing;  // leaves the earliest time there is
  return std::filesystem::last_write_time(cuda, missing) >
                 std::filesystem::last_write_time(cpu, missing)
             ? cuda
             : cpu;
}

namespace {

/// Throws ArgumentError for a row of an operator that the chapter does not have. (A design of one
/// stands behind its name, in parentheses.)
void require_own(const Results& results, const std::string& path, const Chapter& chapter) {
  std::set<std::string> own;
  for (const Problem& problem : chapter.verification_problems()) {
    own.insert(problem.op.substr(0, problem.op.find(" (")));
  }
  for (const ResultRow& row : results.rows) {
    if (own.contains(row.op.substr(0, row.op.find(" (")))) continue;
    throw ArgumentError(fmt::format("--results: got {}, with rows of {}; allowed: results of {}",
                                    path, row.op, chapter.name));
  }
}

}  // namespace

Subcommand show_subcommand(const Chapter& chapter) {
  const auto run = [chapter](const GivenFlags& given) {
    if (given.contains("--pairs") && given.contains("--peers")) {
      throw ArgumentError("--pairs: given with --peers; allowed: without it");
    }
    const std::string path =
        value_or(given, "--results", latest_results_path(chapter.name).string());
    if (!given.contains("--results") && !std::filesystem::exists(path)) {
      throw ArgumentError(fmt::format(
          "--results: got none, and no bench of {} has run here; allowed: a file of results, as "
          "./book bench {} writes or results/ has",
          chapter.name, chapter.name));
    }
    const Results results = read_results(path);
    require_own(results, path, chapter);
    const std::optional<Results> peers = read_peers(path, results.machine);
    const std::string against_peers = peers ? render_peers(results, *peers) : "";
    if (given.contains("--peers")) {
      if (!against_peers.empty()) return Outcome{0, against_peers, ""};
      throw ArgumentError(fmt::format(
          "--peers: got {}; allowed: a file that scripts/peers.py made on this machine, \"{}\", "
          "of operators that {} has",
          peers_path(path).string(), results.machine.name, path));
    }
    if (given.contains("--pairs")) return Outcome{0, render_pairs(results), ""};
    std::string text = render_results(results);
    if (!against_peers.empty()) text += "\n" + against_peers;
    return Outcome{0, text, ""};
  };
  return {"show",
          "results as a table: ledger, replay, counters, clock",
          {{"--results", "FILE", "default: what bench wrote last"},
           {"--pairs", "", "a line for both plans, and what fusion saves"},
           {"--peers", "", "fused plans against other libraries alone"}},
          run};
}

}  // namespace opbook
