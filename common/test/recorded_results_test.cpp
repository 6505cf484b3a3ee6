// What everyone's records must be: each file under results/ is held against its schema, its folder
// and itself. The checks have tests of their own, on records that are wrong in one way each.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/compare.hpp"
#include "common/error.hpp"
#include "common/files.hpp"
#include "common/machine.hpp"
#include "common/results.hpp"
#include "common/test/temporary_folder.hpp"

namespace opbook {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code none;  // a folder that is not there has no entries
  for (const auto& entry : fs::directory_iterator(folder, none)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// Faults of one repository's records, a line each.
class Inspection {
 public:
  explicit Inspection(fs::path root) : root_(std::move(root)) {
    for (const fs::path& entry : entries(root_ / "results")) {
      if (fs::is_directory(entry)) {
        inspect_machine(entry);
      } else if (entry.extension() == ".json") {
        fault(entry, "lies in no machine's folder");
      }
    }
  }

  const std::vector<std::string>& faults() const { return faults_; }

 private:
  void fault(const fs::path& file, const std::string& what) {
    faults_.push_back(file.lexically_relative(root_).string() + ": " + what);
  }

  /// What no row can pass. Empty where nothing is known of the machine.
  struct Limits {
    std::optional<double> gb_per_s;
    std::optional<double> of_copy;  ///< lets a higher rate pass; none where a data sheet is known
  };

  void inspect_machine(const fs::path& folder) {
    const Limits limits = limits_of(folder);
    for (const fs::path& file : entries(folder)) {
      if (file.extension() == ".json" && file.filename() != "machine.json") {
        inspect_record(file, limits);
      }
    }
  }

  /// The rate that a data sheet calls the peak, by whichever name it is known (a driver's "NVIDIA
  /// H200" is sold as "NVIDIA H200 SXM"); of a measured machine its best mix, with 5 % for the day.
  /// Memory that is shared drifts by more within minutes. So where no data sheet sets an end, a row
  /// may be as much faster than the copy timed in turn with it as the best mix is than the copy
  /// that took turns with that, with the same 5 %.
  Limits limits_of(const fs::path& folder) {
    std::vector<fs::path> files = entries(root_ / "common" / "machines");
    if (fs::exists(folder / "machine.json")) files.push_back(folder / "machine.json");
    Limits limits;
    bool has_sheet = false;
    for (const fs::path& file : files) {
      try {
        const Machine machine = load_machine(file.string());
        const bool own = file.parent_path() == folder;
        const std::string slug = machine_slug(machine.name) + "-";
        if (!own && !slug.starts_with(folder.filename().string() + "-")) continue;
        has_sheet |= machine.kind == MachineKind::data_sheet;
        for (const auto& [mix, rate] : machine.bandwidth_gbs) {
          limits.gb_per_s =
              std::max(limits.gb_per_s.value_or(0), mix == "peak" ? rate : 1.05 * rate);
        }
        if (own) limits.of_copy = *limits.gb_per_s / machine.bandwidth_for("copy");
      } catch (const ArgumentError& error) {
        faults_.push_back(error.what());
      }
    }
    if (has_sheet) limits.of_copy.reset();
    return limits;
  }

  void inspect_record(const fs::path& file, const Limits& limits) {
    Results results;
    try {
      results = read_results(file);
      compare_results(results, results);  // refuses a measurement that is there twice
    } catch (const ArgumentError& error) {
      faults_.push_back(error.what());
      return;
    }
    const std::string slug = machine_slug(results.machine.name);
    if (file.parent_path().filename() != slug) {
      fault(file,
            fmt::format("its machine, \"{}\", belongs in results/{}", results.machine.name, slug));
    }
    if (!is_chapter(file.stem().string())) fault(file, "is not named after a chapter");
    if (results.rows.empty()) fault(file, "has no rows");
    const bool of_peers = file.stem().string().ends_with("_peers");
    for (std::size_t i = 0; i < results.rows.size(); ++i) {
      const ResultRow& row = results.rows[i];
      if (row.plan.starts_with("peer: ") != of_peers) {
        fault(file,
              fmt::format("rows[{}]: peers belong in a chapter's _peers.json, and nobody else", i));
      }
      // A peer that is wrong, or fails, gets no time; that it does is worth a record.
      if (of_peers && row.n == 0 && row.note) continue;
      for (const std::string& what : faults_of(row, results.machine, limits)) {
        fault(file, fmt::format("rows[{}]: {}", i, what));
      }
    }
  }

  /// ch13 is, and so are ch13_counters, ch13_peers and ch13_steps.
  bool is_chapter(const std::string& stem) const {
    const std::string chapter = stem.substr(0, 4), part = stem.substr(chapter.size());
    constexpr std::string_view parts[] = {"", "_counters", "_peers", "_steps"};
    if (std::find(std::begin(parts), std::end(parts), part) == std::end(parts)) return false;
    const std::vector<fs::path> folders = entries(root_);
    return std::any_of(folders.begin(), folders.end(), [&](const fs::path& folder) {
      const std::string text = folder.filename().string();
      return chapter.size() == 4 && chapter.starts_with("ch") && text.starts_with(chapter + "_");
    });
  }

  /// Each condition is written so that NaN, what was not measured, fails it.
  static std::vector<std::string> faults_of(const ResultRow& row, const MachineInfo& machine,
                                            const Limits& limits) {
    std::vector<std::string> faults;
    const auto require = [&](bool holds, const std::string& what) {
      if (!holds) faults.push_back(what);
    };
    require(row.device == machine.device, "device is not the machine's");
    require(row.bytes > 0, "moves no bytes");
    require(row.n >= 6, "has fewer than the 6 samples that 95 % bounds need");
    require(0 < row.p25_us && row.p25_us <= row.median_us && row.median_us <= row.p75_us,
            "median_us is not between its quartiles");
    require(
        0 < row.share_lo && row.share_lo <= row.share_of_roof && row.share_of_roof <= row.share_hi,
        "share_of_roof is not between its bounds");
    const double rate = static_cast<double>(row.bytes) / row.median_us / 1e3;
    require(std::fabs(row.gb_per_s - rate) <= 1e-9 * rate, "gb_per_s is not bytes by median_us");
    require(!limits.gb_per_s || row.gb_per_s <= *limits.gb_per_s ||
                (limits.of_copy && row.share_of_roof <= *limits.of_copy),
            fmt::format("gb_per_s is {:.0f}, but the machine's memory gives {:.0f}", row.gb_per_s,
                        limits.gb_per_s.value_or(0)));
    // Of a large problem replay counts fewer rows, whose ledger then stands beside its count.
    const std::int64_t ledger_bytes = row.replay_ledger_bytes.value_or(row.bytes);
    if (row.replay_read_bytes || row.replay_write_bytes) {
      require(
          row.replay_read_bytes.value_or(0) + row.replay_write_bytes.value_or(0) == ledger_bytes,
          "replay counted other bytes than the ledger");
    }
    if (!row.replay_shape) {
      // A kernel of many calls is charged what each touches: never less than all need together.
      require(ledger_bytes >= row.bytes, "replay_ledger_bytes is less than the bytes of the shape");
      require(row.replay_flops.value_or(row.flops) == row.flops,
              "replay counted other FLOPs than the ledger");
    }
    return faults;
  }

  fs::path root_;
  std::vector<std::string> faults_;
};

Results sound_record() {
  Results results;
  results.machine.name = "NVIDIA H200";
  results.machine.device = "cuda";
  ResultRow row;
  row.op = "rope";
  row.shape = {4096, 4096};
  row.dtype = "float32";
  row.plan = "fused";
  row.device = "cuda";
  row.temperature = "cold";
  row.bytes = 134217728;
  row.flops = 1000;
  row.median_us = 32;
  row.p25_us = 31;
  row.p75_us = 33;
  row.n = 41;
  row.gb_per_s = 4194.304;
  row.share_of_roof = 0.95;
  row.share_lo = 0.94;
  row.share_hi = 0.96;
  row.replay_read_bytes = 67108864;
  row.replay_write_bytes = 67108864;
  row.replay_flops = 1000;
  results.rows = {row};
  return results;
}

/// A repository with one chapter and one record in it.
struct Repository {
  TemporaryFolder folder;

  explicit Repository(const Results& record = sound_record(),
                      const std::string& name = "nvidia-h200/ch13.json") {
    folder.write("ch13_norm_rope/README.md", "");
    folder.write("results/README.md", "");
    write_results(folder.path() / "results" / name, record);
  }
  void add_machine(const fs::path& file, const char* name, const char* kind, const char* mix,
                   int rate) const {
    folder.write(file, fmt::format(R"({{
      "name": "{}", "kind": "{}", "source": "a test", "bandwidth_gbs": {{"{}": {}}},
      "peak_tflops": {{"fp32": 67}}, "sms": 132, "on_chip_bytes_per_block": 232448,
      "on_chip_bytes_per_sm": 233472, "l2_bytes": 62914560}})",
                                   name, kind, mix, rate));
  }
  std::vector<std::string> faults() const { return Inspection(folder.path()).faults(); }
  /// The one fault that it has.
  std::string fault() const {
    const std::vector<std::string> all = faults();
    INFO(fmt::format("{}", fmt::join(all, "\n")));
    CHECK(all.size() == 1);
    return all.empty() ? "" : all.front();
  }
};

/// The one fault of a record that is sound but for one change to its row.
std::string fault_after(const std::function<void(ResultRow&)>& change) {
  Results record = sound_record();
  change(record.rows[0]);
  return Repository(record).fault();
}

}  // namespace

TEST_CASE("every record under results/ is sound", "[results]") {
  const Inspection inspection{fs::path(OPBOOK_SOURCE_DIR)};
  INFO(fmt::format("{}", fmt::join(inspection.faults(), "\n")));
  CHECK(inspection.faults().empty());
}

TEST_CASE("a sound record has no faults, nor has a repository without records", "[results]") {
  CHECK(Repository().faults().empty());
  CHECK(Repository(sound_record(), "nvidia-h200/ch13_steps.json").faults().empty());
  const TemporaryFolder empty;
  CHECK(Inspection(empty.path()).faults().empty());
}

TEST_CASE("a record in a wrong place is a fault", "[results]") {
  CHECK_THAT(Repository(sound_record(), "my-card/ch13.json").fault(),
             ContainsSubstring("results/my-card/ch13.json: its machine, \"NVIDIA H200\", belongs "
                               "in results/nvidia-h200"));
  CHECK_THAT(Repository(sound_record(), "ch13.json").fault(),
             ContainsSubstring("results/ch13.json: lies in no machine's folder"));
  for (const char* const name : {"mine", "ch14", "ch1", "ch13_norm_rope", "ch14_steps"}) {
    CHECK_THAT(Repository(sound_record(), fmt::format("nvidia-h200/{}.json", name)).fault(),
               ContainsSubstring("is not named after a chapter"));
  }
}

TEST_CASE("peers have a record of their own, where a peer without a time says why", "[results]") {
  const auto faults_with = [](const std::string& plan, const std::string& name, bool is_timed) {
    Results record = sound_record();
    record.rows[0].plan = plan;
    if (!is_timed) {
      ResultRow& row = record.rows[0];
      row.n = 0;
      row.median_us = row.p25_us = row.p75_us = row.gb_per_s = not_measured;
      row.share_of_roof = row.share_lo = row.share_hi = not_measured;
      row.note = "wrong: by a test";
    }
    return Repository(record, "nvidia-h200/" + name + ".json").faults().size();
  };
  CHECK(faults_with("peer: other", "ch13_peers", true) == 0);
  CHECK(faults_with("peer: other", "ch13_peers", false) == 0);
  CHECK(faults_with("fused", "ch13_peers", true) == 1);
  CHECK(faults_with("peer: other", "ch13", true) == 1);
  CHECK(faults_with("fused", "ch13", false) > 0);
}

TEST_CASE("a record that cannot be read, or holds nothing, is a fault", "[results]") {
  const Repository repository;
  repository.folder.write("results/nvidia-h200/ch13.json", "{}");
  CHECK_THAT(repository.fault(), ContainsSubstring("schema: missing"));

  Results record = sound_record();
  record.rows.clear();
  CHECK_THAT(Repository(record).fault(), ContainsSubstring("has no rows"));
  record.rows = {sound_record().rows[0], sound_record().rows[0]};
  CHECK_THAT(Repository(record).fault(), ContainsSubstring("rows[1] repeats rows[0]"));
}

TEST_CASE("a row that contradicts itself or was not measured is a fault", "[results]") {
  CHECK_THAT(fault_after([](ResultRow& row) { row.device = "cpu"; }),
             ContainsSubstring("rows[0]: device is not the machine's"));
  CHECK_THAT(fault_after([](ResultRow& row) { row.n = 5; }), ContainsSubstring("samples"));
  for (double ResultRow::* const time :
       {&ResultRow::p25_us, &ResultRow::p75_us, &ResultRow::share_of_roof, &ResultRow::share_lo,
        &ResultRow::share_hi, &ResultRow::gb_per_s}) {
    CHECK_FALSE(fault_after([=](ResultRow& row) { row.*time = not_measured; }).empty());
  }
  CHECK_THAT(fault_after([](ResultRow& row) { row.p25_us = 32.5; }),
             ContainsSubstring("median_us is not between"));
  CHECK_THAT(fault_after([](ResultRow& row) { row.share_hi = 0.945; }),
             ContainsSubstring("share_of_roof is not between"));
  CHECK_THAT(fault_after([](ResultRow& row) { row.gb_per_s = 4200; }),
             ContainsSubstring("gb_per_s is not bytes by median_us"));
  CHECK_THAT(fault_after([](ResultRow& row) { ++*row.replay_read_bytes; }),
             ContainsSubstring("replay counted other bytes"));
  CHECK_THAT(fault_after([](ResultRow& row) { ++*row.replay_flops; }),
             ContainsSubstring("replay counted other FLOPs"));
}

TEST_CASE("replay on fewer rows is held against the ledger of those rows", "[results]") {
  Results record = sound_record();
  ResultRow& row = record.rows[0];
  row.replay_shape = {1024, 4096};
  row.replay_ledger_bytes = 33554432;
  row.replay_read_bytes = row.replay_write_bytes = 16777216;
  row.replay_flops = 250;
  CHECK(Repository(record).faults().empty());
  --*row.replay_ledger_bytes;
  CHECK_THAT(Repository(record).fault(), ContainsSubstring("replay counted other bytes"));
  CHECK_THAT(fault_after([](ResultRow& whole) {
               whole.replay_ledger_bytes = 2;
               whole.replay_read_bytes = whole.replay_write_bytes = 1;
             }),
             ContainsSubstring("replay_ledger_bytes is less than the bytes of the shape"));
}

TEST_CASE("a rate above what the machine's memory gives is a fault", "[results]") {
  const Repository repository;
  repository.add_machine("common/machines/other.json", "NVIDIA H20", "data_sheet", "peak", 4000);
  CHECK(repository.faults().empty());
  repository.add_machine("common/machines/h200.json", "NVIDIA H200 SXM", "data_sheet", "peak",
                         4800);
  CHECK(repository.faults().empty());
  repository.add_machine("common/machines/h200.json", "NVIDIA H200 SXM", "data_sheet", "peak",
                         4100);
  CHECK_THAT(repository.fault(),
             ContainsSubstring("gb_per_s is 4194, but the machine's memory gives 4100"));
}

TEST_CASE("a measured machine.json bounds the rates beside it, or the shares, with 5 %",
          "[results]") {
  const Repository repository;
  repository.add_machine("results/nvidia-h200/machine.json", "any", "measured", "copy", 4000);
  CHECK(repository.faults().empty());
  repository.add_machine("results/nvidia-h200/machine.json", "any", "measured", "copy", 3900);
  CHECK(repository.faults().empty());  // 95 % of the copy that took turns with it
  Results record = sound_record();
  record.rows[0].share_of_roof = record.rows[0].share_hi = 1.06;
  const Repository faster(record);
  faster.add_machine("results/nvidia-h200/machine.json", "any", "measured", "copy", 3900);
  CHECK_THAT(faster.fault(), ContainsSubstring("the machine's memory gives 4095"));
  faster.add_machine("results/nvidia-h200/machine.json", "any", "measured", "copy", 4000);
  CHECK(faster.faults().empty());
  repository.add_machine("common/machines/h200.json", "NVIDIA H200 SXM", "data_sheet", "peak",
                         4000);
  CHECK_THAT(repository.fault(), ContainsSubstring("the machine's memory gives 4095"));
  repository.add_machine("common/machines/h200.json", "NVIDIA H200 SXM", "data_sheet", "peak",
                         4800);
  repository.folder.write("results/nvidia-h200/machine.json", "{");
  CHECK_THAT(repository.fault(), ContainsSubstring("machine.json: is not JSON"));
}

}  // namespace opbook
