#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/cache_model.hpp"
#include "common/chapter.hpp"
#include "common/table.hpp"

namespace opbook {
namespace {

using nlohmann::ordered_json;

/// Both plans of a problem, replayed once, whatever the size of the cache.
struct Curves {
  Problem problem;
  std::int64_t smallest_cache_bytes;
  CacheCurve unfused, fused;
};

Curves replay_both(Problem problem, std::int64_t smallest_cache_bytes) {
  Curves curves{std::move(problem), smallest_cache_bytes, {}, {}};
  Tensors tensors(curves.problem.tensors);
  fill_inputs(curves.problem, tensors, 1);
  replay_problem(curves.problem, PlanKind::unfused, tensors, &curves.unfused);
  replay_problem(curves.problem, PlanKind::fused, tensors, &curves.fused);
  return curves;
}

/// None, then powers of two until a larger one saves nothing more.
std::vector<std::int64_t> sizes_of_interest(const Curves& curves) {
  const auto least = curves.unfused.traffic(std::int64_t{1} << 50).moved_bytes();
  std::vector<std::int64_t> sizes = {0};
  for (std::int64_t size = curves.smallest_cache_bytes;; size *= 2) {
    sizes.push_back(size);
    if (curves.unfused.traffic(size).moved_bytes() == least) return sizes;
  }
}

std::string size_text(std::int64_t bytes) {
  if (bytes == 0) return "none";
  return bytes < 1 << 20 ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} MiB", bytes >> 20);
}

double ratio(const CacheCurve::Traffic& unfused, const CacheCurve::Traffic& fused) {
  return static_cast<double>(unfused.moved_bytes()) / static_cast<double>(fused.moved_bytes());
}

std::string render(const Curves& curves) {
  const Problem& problem = curves.problem;
  Table table({{"cache"}, {"unfused MB"}, {"fused MB"}, {"ratio"}});
  for (const std::int64_t size : sizes_of_interest(curves)) {
    const auto unfused = curves.unfused.traffic(size), fused = curves.fused.traffic(size);
    table.add_row({size_text(size), megabytes(unfused.moved_bytes()),
                   megabytes(fused.moved_bytes()), fixed(ratio(unfused, fused), 2)});
  }
  return fmt::format(
      "{} {} [{}]: memory traffic by the size of the cache\n\n{}\nThe ledger: {} MB unfused, {} MB "
      "fused, ratio {}.\n",
      problem.op, name_of(problem.dtype), fmt::join(problem.shape, ", "), table.render(),
      megabytes(problem.ledger.unfused.moved_bytes()),
      megabytes(problem.ledger.fused.moved_bytes()), fixed(problem.ledger.bytes_ratio(), 2));
}

ordered_json to_json(const Curves& curves) {
  ordered_json points = ordered_json::array();
  for (const std::int64_t size : sizes_of_interest(curves)) {
    points.push_back({{"cache_bytes", size},
                      {"unfused_bytes", curves.unfused.traffic(size).moved_bytes()},
                      {"fused_bytes", curves.fused.traffic(size).moved_bytes()}});
  }
  return {{"op", curves.problem.op},
          {"dtype", name_of(curves.problem.dtype)},
          {"shape", curves.problem.shape},
          {"ledger_unfused_bytes", curves.problem.ledger.unfused.moved_bytes()},
          {"ledger_fused_bytes", curves.problem.ledger.fused.moved_bytes()},
          {"points", std::move(points)}};
}

Outcome run_cache(const Chapter& chapter, const GivenFlags& given) {
  std::vector<Problem> problems;
  if (given.contains("--op")) {
    problems.push_back(chapter.make_problem(given.at("--op"), given, {}));
  } else {
    refuse_without_op(chapter, given);
    // The same size on every machine: 8 MB fused, beyond one core's caches, within a last level's.
    for (Problem& problem : chapter.benchmark_problems(8'000'000)) {
      if (problem.dtype == Dtype::bfloat16) problems.push_back(std::move(problem));
    }
  }
  Outcome outcome;
  ordered_json list = ordered_json::array();
  for (Problem& problem : problems) {
    const Curves curves = replay_both(std::move(problem), chapter.smallest_cache_bytes);
    list.push_back(to_json(curves));
    if (!outcome.out.empty()) outcome.out += '\n';
    outcome.out += render(curves);
  }
  if (given.contains("--json")) {
    outcome.out = (given.contains("--op") ? list.front() : ordered_json{{"curves", list}}).dump(2);
    outcome.out += "\n";
  }
  return outcome;
}

}  // namespace

Subcommand cache_subcommand(const Chapter& chapter) {
  std::vector<Flag> flags = {{"--op", "OP", "one operator; default: all, in bfloat16"}};
  flags.insert(flags.end(), chapter.argument_flags.begin(), chapter.argument_flags.end());
  flags.push_back({"--json", "", "print JSON"});
  return {"cache", "memory traffic of both plans by the size of the cache", flags,
          [chapter](const GivenFlags& given) { return run_cache(chapter, given); }};
}

}  // namespace opbook
