#include "ch28_design/claims.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "common/machine.hpp"
#include "common/machine_info.hpp"
#include "common/table.hpp"

namespace opbook::ch28 {
namespace {

/// The machine that results were made on: as it was measured, or off the data sheet that goes by a
/// part of its name.
Machine machine_of(const MachineInfo& info) {
  const std::string slug = machine_slug(info.name);
  const auto known = known_machines();
  if (known.contains(slug)) return load_machine(slug);
  for (const auto& [name, path] : known) {
    if (("-" + slug + "-").find("-" + name + "-") != std::string::npos) return load_machine(name);
  }
  return load_machine("h200");
}

std::string us(double time) {
  return fixed(time, 2) + " us";
}
std::string times(double ratio) {
  return fixed(ratio, 2) + "x";
}

Judgement verdict_of(bool holds) {
  return holds ? Judgement::holds : Judgement::fails;
}

class Claims {
 public:
  explicit Claims(const std::vector<DesignRow>& rows) : rows_(rows) {}

  /// The measurement of a design, or nullptr.
  const ResultRow* find(Design design, std::int64_t tokens) const {
    for (const DesignRow& row : rows_) {
      if (row.design == design && row.tokens == tokens) return row.row;
    }
    return nullptr;
  }

  /// Bytes that DRAM sees, as a multiple of the ideal: what counters saw it read, and what has to
  /// be written, of which the L2 may hold some back beyond the end of the measurement.
  void dram_ratio(const char* whose, Design design, double predicted) {
    Claim& claim =
        add(whose, fmt::format("{} makes DRAM move this much of the ideal", name_of(design)),
            times(predicted));
    const ResultRow* row = find(design, book_tokens);
    if (row == nullptr || !row->dram_read_bytes) return;
    Arguments a;
    a.tokens = book_tokens;
    const std::int64_t written = operator_ledger(a, Convention::exact).write_bytes;
    const double measured = ratio(*row->dram_read_bytes + written, row->bytes);
    claim.measured = times(measured);
    claim.verdict = verdict_of(std::fabs(measured / predicted - 1) <= bytes_within);
  }

  /// A time that nothing can beat.
  void floor(const char* whose, Design design, double predicted_us) {
    Claim& claim =
        add(whose, fmt::format("{} takes no less than", name_of(design)), us(predicted_us));
    const ResultRow* row = find(design, book_tokens);
    if (row == nullptr) return;
    claim.measured = us(row->median_us);
    claim.verdict = verdict_of(row->median_us >= predicted_us * (1 - floor_within));
  }

  /// Times as multiples of design C's.
  void slower_than_c(const char* whose, Design design, double predicted) {
    Claim& claim = add(whose, fmt::format("{} takes this much of C's time", name_of(design)),
                       times(predicted));
    const ResultRow* row = find(design, book_tokens);
    const ResultRow* c = find(Design::C, book_tokens);
    if (row == nullptr || c == nullptr) return;
    const double measured = row->median_us / c->median_us;
    claim.measured = times(measured);
    claim.verdict = verdict_of(std::fabs(measured / predicted - 1) <= time_within);
  }

  void order() {
    Claim& claim = add("book", "fastest first", "C B A");
    std::vector<std::pair<double, Design>> measured;
    for (const Design design : {Design::A, Design::B, Design::C}) {
      const ResultRow* row = find(design, book_tokens);
      if (row == nullptr) return;
      measured.emplace_back(row->median_us, design);
    }
    std::sort(measured.begin(), measured.end());
    for (const auto& [time, design] : measured) {
      claim.measured += (claim.measured.empty() ? "" : " ") + std::string(name_of(design));
    }
    claim.verdict = verdict_of(claim.measured == claim.predicted);
  }

  void time(const Predicted& predicted) {
    Claim& claim = add("model",
                       fmt::format("{} at {} tokens takes", name_of(predicted.design),
                                   thousands(predicted.tokens)),
                       us(predicted.predicted_us));
    claim.measured = fmt::format("{} ({:+.1f} %)", us(predicted.measured_us),
                                 -100 * predicted.error() / (1 + predicted.error()));
    claim.verdict = verdict_of(std::fabs(predicted.error()) <= time_within);
  }

  std::vector<Claim> take() { return std::move(claims_); }

  static constexpr std::int64_t book_tokens = predicted_tokens[0];

 private:
  Claim& add(const char* whose, std::string what, std::string predicted) {
    claims_.push_back({whose, std::move(what), std::move(predicted), "", Judgement::not_measured});
    return claims_.back();
  }

  const std::vector<DesignRow>& rows_;
  std::vector<Claim> claims_;
};

void add_book_claims(Claims& claims) {
  const Arguments book;
  const OperatorLedger op = operator_ledger(book, Convention::book);
  const auto floor_of = [&](Design design) {
    return budget_of(design_ledger(book, design, Convention::book), book, Convention::book)
        .floor_us;
  };
  for (const Design design : {Design::A, Design::B, Design::C}) {
    const DesignLedger ledger = design_ledger(book, design, Convention::book);
    claims.dram_ratio("book", design, ratio(ledger.total_bytes, op.ideal_bytes));
    claims.floor("book", design, floor_of(design));
  }
  claims.slower_than_c("book", Design::A, floor_of(Design::A) / floor_of(Design::C));
  claims.slower_than_c("book", Design::B, floor_of(Design::B) / floor_of(Design::C));
  claims.order();
}

}  // namespace

std::string_view name_of(Judgement verdict) {
  switch (verdict) {
    case Judgement::holds:
      return "holds";
    case Judgement::fails:
      return "does not hold";
    case Judgement::not_measured:
      break;
  }
  return "not measured";
}

Results read_counted(const std::filesystem::path& path) {
  Results results = read_results(path);
  const std::filesystem::path beside =
      path.parent_path() / (path.stem().string() + "_counters.json");
  if (!std::filesystem::exists(beside)) return results;
  const Results counted = read_results(beside);
  if (counted.machine.name != results.machine.name ||
      counted.machine.device != results.machine.device) {
    return results;
  }
  const auto cell = [](const ResultRow& row) {
    return std::tie(row.op, row.shape, row.dtype, row.plan, row.temperature);
  };
  for (ResultRow& row : results.rows) {
    if (row.dram_bytes) continue;
    const auto same =
        std::find_if(counted.rows.begin(), counted.rows.end(),
                     [&](const ResultRow& other) { return cell(other) == cell(row); });
    if (same == counted.rows.end()) continue;
    row.dram_bytes = same->dram_bytes;
    row.dram_read_bytes = same->dram_read_bytes;
    row.l2_bytes = same->l2_bytes;
  }
  return results;
}

Conclusion conclude(const Results& results) {
  Conclusion conclusion;
  conclusion.machine = results.machine.name;
  const bool on_gpu = results.machine.device == "cuda";
  const std::vector<DesignRow> rows = on_gpu ? design_rows(results) : std::vector<DesignRow>();
  const Machine machine = machine_of(results.machine);
  conclusion.model = fitted_model(rows, machine);
  Claims claims(rows);
  add_book_claims(claims);
  // What the model says of DRAM's bytes follows from the sizes of caches: nothing is fitted.
  for (const Design design : {Design::A, Design::B, Design::C}) {
    const Arguments a = arguments_on(machine, Claims::book_tokens);
    const std::int64_t ideal = operator_ledger(a, Convention::exact).ideal_bytes;
    const Prediction prediction = predict(unfitted_model(a), a, design, machine);
    claims.dram_ratio("model", design, ratio(prediction.dram_bytes, ideal));
  }
  for (const std::int64_t tokens : predicted_tokens) {
    for (const Design design : all_designs) {
      const ResultRow* row = claims.find(design, tokens);
      if (row == nullptr || !conclusion.model) continue;
      const Prediction prediction =
          predict(*conclusion.model, arguments_on(machine, tokens), design, machine);
      conclusion.predictions.push_back({design, tokens, prediction.time_us, row->median_us});
      claims.time(conclusion.predictions.back());
    }
  }
  conclusion.claims = claims.take();
  return conclusion;
}

std::string to_text(const Conclusion& conclusion) {
  Table table({{"whose", Align::left},
               {"claim", Align::left},
               {"predicted"},
               {"measured"},
               {"verdict", Align::left}});
  for (const Claim& claim : conclusion.claims) {
    table.add_row({claim.whose, claim.what, claim.predicted,
                   claim.measured.empty() ? "-" : claim.measured,
                   std::string(name_of(claim.verdict))});
  }
  std::string text = fmt::format("What was claimed, and what {} measured\n\n{}\n",
                                 conclusion.machine, table.render());
  text += fmt::format(
      "Bytes hold within {}, floors are not passed by more than {}, times hold within {}.\n",
      percent(bytes_within, 0), percent(floor_within, 0), percent(time_within, 0));
  if (!conclusion.model) {
    return text + "The model was not fitted: that takes a GPU's results at two sizes or more.\n";
  }
  const TimeModel& model = *conclusion.model;
  text += fmt::format(
      "Fitted, at {} tokens alone: overhead {} us and rate {} GB/s, both of the device copies;\n"
      "wave times",
      fmt::join(model.fitted_tokens, ", "), fixed(model.overhead_us, 2), fixed(model.rate_gbs, 0));
  for (const Design design : all_designs) {
    text += fmt::format(" {} {}", name_of(design),
                        fixed(model.wave_us[static_cast<std::size_t>(design)], 3));
  }
  return text + " us.\n";
}

}  // namespace opbook::ch28
