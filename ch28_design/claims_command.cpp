#include <filesystem>
#include <nlohmann/json.hpp>

#include "ch28_design/claims.hpp"
#include "common/chapter.hpp"
#include "common/error.hpp"
#include "common/results.hpp"
#include "common/show.hpp"

namespace opbook::ch28 {
namespace {

using nlohmann::ordered_json;

/// What --results names, or what bench wrote on a GPU.
Conclusion conclusion_of(const GivenFlags& given) {
  const std::string path =
      value_or(given, "--results", default_results_path("ch28", Device::cuda).string());
  if (!given.contains("--results") && !std::filesystem::exists(path)) {
    throw ArgumentError(
        "--results: got none, and no bench has run on a GPU here; allowed: a file of results, as "
        "results/nvidia-h200/ch28.json");
  }
  const Results results = read_counted(path);
  if (design_rows(results).empty()) {
    throw ArgumentError(
        "--results: got " + path +
        ", which has no design timed at the book's heads and width; allowed: a file "
        "that bench ch28 wrote on a GPU");
  }
  return conclude(results);
}

ordered_json to_json(const Conclusion& conclusion) {
  ordered_json claims = ordered_json::array(), predictions = ordered_json::array();
  for (const Claim& claim : conclusion.claims) {
    claims.push_back({{"whose", claim.whose},
                      {"claim", claim.what},
                      {"predicted", claim.predicted},
                      {"measured", claim.measured},
                      {"verdict", name_of(claim.verdict)}});
  }
  for (const Predicted& one : conclusion.predictions) {
    predictions.push_back({{"design", name_of(one.design)},
                           {"tokens", one.tokens},
                           {"predicted_us", one.predicted_us},
                           {"measured_us", one.measured_us}});
  }
  ordered_json json = {{"machine", conclusion.machine},
                       {"claims", std::move(claims)},
                       {"predictions", std::move(predictions)}};
  if (conclusion.model) {
    json["fit"] = {{"tokens", conclusion.model->fitted_tokens},
                   {"overhead_us", conclusion.model->overhead_us},
                   {"rate_gbs", conclusion.model->rate_gbs},
                   {"wave_us", conclusion.model->wave_us}};
  }
  return json;
}

}  // namespace

Subcommand claims_subcommand() {
  return {"claims",
          "what the book and the model claim of the designs, held against results",
          {{"--results", "FILE", "default: what bench wrote last on a GPU"},
           {"--json", "", "print JSON and nothing else"}},
          [](const GivenFlags& given) {
            const Conclusion conclusion = conclusion_of(given);
            return Outcome{
                0,
                given.contains("--json") ? to_json(conclusion).dump(2) + "\n" : to_text(conclusion),
                ""};
          }};
}

Subcommand with_conclusion(Subcommand show) {
  show.run = [show_results = show.run](const GivenFlags& given) {
    Outcome outcome = show_results(given);
    if (!given.contains("--results") || given.contains("--peers")) return outcome;
    const std::filesystem::path path = given.at("--results");
    if (path.stem().string().ends_with("_counters")) return outcome;  // another file's conclusion
    const Results results = read_counted(path);
    if (results.machine.device == "cuda") outcome.out += "\n" + to_text(conclude(results));
    return outcome;
  };
  return show;
}

}  // namespace opbook::ch28
