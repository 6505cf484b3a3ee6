#include "common/verify_problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <span>

#include "common/error.hpp"

namespace opbook {
namespace {

using Snapshot = std::map<std::string, std::vector<std::byte>>;

/// The bytes of every input, or of everything that the operator writes.
Snapshot snapshot(const Problem& problem, const Tensors& tensors, bool inputs) {
  Snapshot bytes;
  for (const TensorSpec& spec : problem.tensors) {
    if (spec.role == Role::witness || (spec.role == Role::input) != inputs) continue;
    const Array& array = tensors.at(spec.name);
    bytes[spec.name].assign(array.raw(), array.raw() + array.bytes());
  }
  return bytes;
}

bool same_bytes(const Array& array, const std::vector<std::byte>& bytes) {
  return bytes.empty() || std::memcmp(array.raw(), bytes.data(), bytes.size()) == 0;
}

class Verification {
 public:
  Verification(const Problem& problem, Tensors& tensors, const Run& run)
      : problem_(problem), tensors_(tensors), run_(run) {}

  std::vector<Finding> findings(Twin twin) {
    const Snapshot inputs = snapshot(problem_, tensors_, true);
    for (const PlanKind plan : both_plans) {
      // A run that wrote where it may not is a finding like any other.
      try {
        run_fresh(plan);
        check_values(plan);
        check_bystanders(plan, inputs);
        const Snapshot results = snapshot(problem_, tensors_, false);
        if (twin == Twin::replay) {
          check_replay(plan, results);
        } else {
          run_fresh(plan);
          check_same_bits(plan, results, "two runs give different bits");
        }
      } catch (const CheckFailed& failed) {
        fault(plan, "", "", failed.what());
      }
    }
    return findings_;
  }

 private:
  void run_fresh(PlanKind plan) {
    poison_results(problem_, tensors_);
    run_(plan, tensors_);
  }

  void check_same_bits(PlanKind plan, const Snapshot& results, const char* otherwise) {
    for (const auto& [name, bytes] : results) {
      if (!same_bytes(tensors_.at(name), bytes)) fault(plan, "", name, otherwise);
    }
  }

  void check_values(PlanKind plan) {
    const std::vector<Kernel>& kernels = problem_.plan(plan).kernels;
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const Kernel& kernel = kernels[k];
      const std::vector<Check> checks = problem_.expect(plan, kernel.name, tensors_, run_);
      if (checks.empty() && !overwritten(kernel, std::span(kernels).subspan(k + 1))) {
        fault(plan, kernel.name, "", "has no reference");
      }
      for (const Check& check : checks) {
        const Verdict verdict = judge(check, tensors_);
        findings_.push_back({std::string(name_of(plan)), kernel.name, check.tensor,
                             verdict.worst_ulp, allowed_ulp(check, verdict), verdict.pass,
                             verdict.pass ? "" : verdict.describe()});
      }
    }
  }

  /// Whether nothing is left of what a kernel wrote, since one of the later ones wrote over it:
  /// such a kernel is right where the later ones are.
  static bool overwritten(const Kernel& kernel, std::span<const Kernel> later) {
    return std::all_of(kernel.writes.begin(), kernel.writes.end(), [&](const Tensor& written) {
      return std::any_of(later.begin(), later.end(), [&](const Kernel& other) {
        return std::any_of(other.writes.begin(), other.writes.end(),
                           [&](const Tensor& tensor) { return tensor.name == written.name; });
      });
    });
  }

  /// What the element with the largest error was allowed: its tolerance and its slack, in ulps.
  double allowed_ulp(const Check& check, const Verdict& verdict) const {
    const std::vector<double>& slack = check.expected.slack;
    if (slack.empty() || verdict.worst_index < 0) return check.tolerance_ulp;
    const Dtype dtype = tensors_.at(check.tensor).dtype();
    const double value = check.expected.value[verdict.worst_index];
    return check.tolerance_ulp + slack[verdict.worst_index] / ulp(dtype, value);
  }

  /// Inputs unchanged, guard bands intact.
  void check_bystanders(PlanKind plan, const Snapshot& inputs) {
    for (const TensorSpec& spec : problem_.tensors) {
      const Array& array = tensors_.at(spec.name);
      if (!array.guards_intact()) fault(plan, "", spec.name, "wrote beyond its ends");
      const auto input = inputs.find(spec.name);
      if (input != inputs.end() && !same_bytes(array, input->second)) {
        fault(plan, "", spec.name, "an input was changed");
      }
    }
  }

  void check_replay(PlanKind plan, const Snapshot& results) {
    poison_results(problem_, tensors_);
    const std::vector<KernelCount> counts = replay_problem(problem_, plan, tensors_);
    check_same_bits(plan, results, "replay and the fast backend give different bits");
    const std::vector<Kernel> ledger = problem_.replayed_plan(plan).kernels;
    if (counts.size() != ledger.size()) {
      fault(plan, "", "",
            "replay ran " + std::to_string(counts.size()) + " kernels, the ledger has " +
                std::to_string(ledger.size()));
      return;
    }
    for (std::size_t k = 0; k < ledger.size(); ++k) compare_counts(plan, ledger[k], counts[k]);
  }

  void compare_counts(PlanKind plan, const Kernel& ledger, const KernelCount& count) {
    std::string differs;
    const auto hold = [&](const char* figure, std::int64_t on_paper, std::int64_t replayed) {
      if (on_paper == replayed) return;
      differs += std::string(differs.empty() ? "" : ", ") + figure + ": ledger " +
                 std::to_string(on_paper) + ", replay " + std::to_string(replayed);
    };
    if (ledger.name != count.name) differs = "replay calls it " + count.name;
    hold("bytes read", ledger.read_bytes(), count.read_bytes());
    hold("bytes written", ledger.write_bytes(), count.write_bytes());
    hold("FLOPs", ledger.flops, count.flops);
    // Longer rows may fall out of the modelled cache between two passes over them, and so may the
    // angles of positions that repeat.
    const bool has_positions =
        std::any_of(problem_.tensors.begin(), problem_.tensors.end(),
                    [](const TensorSpec& spec) { return spec.name == "positions"; });
    if (problem_.row_bytes() <= 32 * 1024 && !has_positions) {
      hold("bytes fetched again", 0, count.refetched_bytes());
    }
    findings_.push_back(
        {std::string(name_of(plan)), ledger.name, "", 0, 0, differs.empty(), differs});
  }

  void fault(PlanKind plan, const std::string& kernel, const std::string& tensor,
             const std::string& detail) {
    findings_.push_back({std::string(name_of(plan)), kernel, tensor, 0, 0, false, detail});
  }

  const Problem& problem_;
  Tensors& tensors_;
  const Run& run_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> verify_problem(const Problem& problem, Tensors& tensors, const Run& run,
                                    Twin twin) {
  return Verification(problem, tensors, run).findings(twin);
}

std::vector<Finding> verify_problem(const Problem& problem, Tensors& tensors, Fast& fast) {
  return verify_problem(problem, tensors, run_on_cpu(problem, fast), Twin::replay);
}

double unfused_end_to_end_ulp(const Problem& problem, Tensors& tensors, const Run& run) {
  poison_results(problem, tensors);
  run(PlanKind::unfused, tensors);
  double worst = 0;
  for (const Check& check : problem.expect(PlanKind::fused, "fused", tensors, run)) {
    const Verdict verdict = judge(check, tensors);
    worst = std::max(worst, verdict.worst_ulp);
  }
  return worst;
}

bool all_pass(const std::vector<Finding>& findings) {
  return !findings.empty() && std::all_of(findings.begin(), findings.end(),
                                          [](const Finding& finding) { return finding.pass; });
}

}  // namespace opbook
