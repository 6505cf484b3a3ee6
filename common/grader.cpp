#include "common/grader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>

#include "common/build_kind.hpp"
#include "common/guarded.hpp"
#include "common/replay.hpp"
#include "common/sandbox.hpp"
#include "common/scratch_count.hpp"
#include "common/table.hpp"
#include "common/timing.hpp"

namespace opbook {
namespace {

using How = ChildEnd::How;

std::string shape_of(const ExerciseCase& at) {
  return fmt::format("[{}]", fmt::join(at.tensors.front().shape, ", "));
}

/// An exercise's tensors in memory that a child can share, inputs filled, outputs poisoned.
class Stage {
 public:
  Stage(const ExerciseCase& at, Edge edge) : at_(at), arrays_(at.tensors) {
    operands_.scalars = at.scalars;
    for (const TensorSpec& spec : at.tensors) {
      Array& array = arrays_.at(spec.name);
      if (spec.role == Role::input) spec.fill(array, 11);
      const GuardedMemory& memory = memories_.emplace_back(array.bytes(), edge);
      std::memcpy(memory.as<std::byte>(), array.raw(), array.bytes());
      operands_.tensors.push_back({spec.name, memory.as<float>(), array.row_count(), array.cols(),
                                   static_cast<int>(spec.shape.size())});
    }
  }

  const Operands& operands() const { return operands_; }
  const ExerciseCase& at() const { return at_; }

  /// The arrays, outputs as the child left them.
  const Tensors& gathered() {
    for (std::size_t t = 0; t < memories_.size(); ++t) {
      Array& array = arrays_.at(at_.tensors[t].name);
      std::memcpy(array.raw(), memories_[t].as<std::byte>(), array.bytes());
    }
    return arrays_;
  }

  /// What a bad access touched.
  std::string describe(const ChildEnd& end) const {
    const char* const did = end.wrote ? "wrote" : "read";
    for (std::size_t t = 0; t < memories_.size(); ++t) {
      if (!memories_[t].guards(end.address)) continue;
      const FloatTensor& tensor = operands_.tensors[t];
      const std::int64_t offset =
          static_cast<const std::byte*>(end.address) - memories_[t].as<std::byte>();
      if (offset < 0) {
        return fmt::format("{} {} bytes before the beginning of {}", did, -offset, tensor.name);
      }
      const std::int64_t past = offset - memories_[t].bytes();
      return past == 0 ? fmt::format("{} beyond the end of {}", did, tensor.name)
                       : fmt::format("{} {} bytes beyond the end of {}", did, past, tensor.name);
    }
    return fmt::format(
        "{} memory far from every tensor: an index far out of range, or a "
        "recursion without an end",
        did);
  }

 private:
  const ExerciseCase& at_;
  Tensors arrays_;
  std::vector<GuardedMemory> memories_;
  Operands operands_;
};

/// What replay counts of a tensor; the last of a list is the submission's own memory.
struct Figures {
  std::int64_t read = 0;
  std::int64_t written = 0;
  std::int64_t refetched = 0;
};

class Grader {
 public:
  Grader(const Exercise& exercise, const Submission& submission, const Submission& solution,
         const GradeOptions& options)
      : exercise_(exercise), submission_(submission), solution_(solution), options_(options) {}

  Grade run() {
    standing_ = Standing::done;
    if (values() && bytes() && speed()) say("Done.\n");
    return {standing_, report_};
  }

 private:
  void say(const std::string& text) { report_ += text; }
  bool stop(Standing standing, const std::string& text) {
    standing_ = standing;
    say(text + "\n");
    return false;
  }

  // --- values -----------------------------------------------------------------------------------

  bool values() {
    double worst = 0;
    for (const ExerciseCase& at : exercise_.checked) {
      for (const Edge edge : {Edge::back, Edge::front}) {
        Stage stage(at, edge);
        const ChildEnd end = run_in_child([&] { submission_.plain(stage.operands()); }, limits());
        if (!returned(end, stage)) return false;
        if (!right(stage, worst)) return false;
      }
    }
    say(fmt::format("values  right at {} shapes from {} to {}, worst {:.1f} ulp\n",
                    exercise_.checked.size(), shape_of(exercise_.checked.front()),
                    shape_of(exercise_.checked.back()), worst));
    return true;
  }

  Limits limits() const { return {.seconds = options_.seconds}; }

  bool returned(const ChildEnd& end, const Stage& stage) {
    const std::string where = "at shape " + shape_of(stage.at());
    switch (end.how) {
      case How::returned:
        return true;
      case How::not_started:
        return stop(Standing::not_started, "Not started: this is still the skeleton.");
      case How::bad_access: {
        const std::string cause = misuse(stage.at());
        return stop(Standing::crashed,
                    fmt::format("Crashed {}: it {}.{}{}", where, stage.describe(end),
                                cause.empty() ? "" : "\n", cause));
      }
      case How::died:
        return stop(Standing::crashed, fmt::format("Crashed {}: {}.", where, end.text));
      case How::threw:
        return stop(Standing::crashed, fmt::format("Crashed {}: it threw {}.", where, end.text));
      case How::out_of_memory:
        return stop(Standing::out_of_memory,
                    fmt::format("Out of memory {}: it asked for more than {} MiB.", where,
                                limits().memory_bytes >> 20));
      case How::out_of_time:
        return stop(Standing::out_of_time,
                    fmt::format("Stopped {}: not finished after {:g} s.\nA loop without an end? "
                                "Look for a counter that is not counted, or counts away from "
                                "where its loop stops.",
                                where, options_.seconds));
    }
    return false;
  }

  /// The first element that was used wrongly, which only metered views see: an index that does not
  /// exist, even where it hits another row, or an output read before it was written.
  std::string misuse(const ExerciseCase& at) {
    Stage stage(at, Edge::back);
    std::vector<Figures> figures;
    const ChildEnd end = meter(stage, figures);
    return end.how == How::threw ? end.text : "";
  }

  bool right(Stage& stage, double& worst) {
    const Tensors& arrays = stage.gathered();
    for (const Check& check : stage.at().expect(arrays)) {
      const Verdict verdict = judge(check, arrays);
      worst = std::max(worst, verdict.worst_ulp);
      if (verdict.pass) continue;
      std::string cause = misuse(stage.at());
      if (cause.empty() && nothing_written(stage)) {
        return stop(Standing::not_started, "Not started: nothing was written.");
      }
      if (cause.empty()) {
        cause = diagnose(arrays.at(check.tensor), check, stage.at().slips(arrays));
      }
      return stop(Standing::wrong,
                  fmt::format("Wrong at shape {}: {}", shape_of(stage.at()), cause));
    }
    return true;
  }

  static bool nothing_written(Stage& stage) {
    const Tensors& arrays = stage.gathered();
    return std::all_of(
        stage.at().tensors.begin(), stage.at().tensors.end(), [&](const TensorSpec& spec) {
          const Array& array = arrays.at(spec.name);
          const auto unwritten = [](std::byte byte) { return byte == std::byte{0xFF}; };
          return spec.role != Role::output ||
                 std::all_of(array.raw(), array.raw() + array.bytes(), unwritten);
        });
  }

  // --- bytes ------------------------------------------------------------------------------------

  /// Runs the submission on metered views; `figures` get one entry a tensor and one for its own
  /// memory.
  ChildEnd meter(const Stage& stage, std::vector<Figures>& figures) {
    const std::vector<FloatTensor>& tensors = stage.operands().tensors;
    const std::size_t entries = tensors.size() + 1;
    const GuardedMemory shared(entries * sizeof(Figures), Edge::back);
    auto* const counted = shared.as<Figures>();
    const ChildEnd end = run_in_child(
        [&] {
          Meter meter;
          for (const FloatTensor& tensor : tensors) {
            meter.declare(tensor.name, tensor.data, tensor.rows * tensor.cols * sizeof(float));
          }
          meter.begin_kernel("submission");
          {
            const ScratchCount scratch;
            submission_.metered(stage.operands(), meter);
            counted[tensors.size()] = {scratch.most_bytes(), scratch.most_bytes(), 0};
          }
          meter.end_kernel();
          for (const TensorCount& count : meter.kernels().front().tensors) {
            const std::size_t t = &stage.operands().tensor(count.name) - tensors.data();
            counted[t] = {count.read_bytes, count.write_bytes, count.refetched_bytes};
          }
        },
        limits());
    figures.assign(counted, counted + entries);
    return end;
  }

  bool bytes() {
    Stage stage(exercise_.counted, Edge::back);
    std::vector<Figures> figures;
    if (!returned(meter(stage, figures), stage)) return false;

    const std::vector<FloatTensor>& tensors = stage.operands().tensors;
    Table table({{"tensor", Align::left}, {"ledger"}, {"yours"}, {"too many"}});
    std::int64_t on_paper = 0, moved = 0, excess = 0;
    std::string advice;
    const auto add = [&](const std::string& name, const Figures& ledger, const Figures& yours) {
      const std::int64_t allowed = ledger.read + ledger.written;
      const std::int64_t used = yours.read + yours.written + yours.refetched;
      table.add_row({name, thousands(allowed), thousands(used), thousands(used - allowed)});
      on_paper += allowed;
      moved += used;
      excess += used - allowed;
    };
    std::int64_t row_bytes = 0;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const std::string& name = tensors[t].name;
      const Figures ledger = on_paper_of(name);
      add(name, ledger, figures[t]);
      row_bytes = std::max<std::int64_t>(row_bytes, tensors[t].cols * sizeof(float));
      if (figures[t].refetched > 0) {
        advice += fmt::format(
            "{} is fetched again after its rows have left a cache of 256 KiB: do "
            "all of a row's work before the next row's.\n",
            name);
      }
      if (figures[t].read > ledger.read) {
        advice += fmt::format(
            "{} is an output, and is read back: keep what you need again in a "
            "variable, or form it anew.\n",
            name);
      }
    }
    // A row of scratch stands for registers and shared memory; more is a tensor.
    const Figures scratch = figures.back();
    if (scratch.written > row_bytes) {
      add("your own memory", {}, scratch);
      advice += fmt::format(
          "Memory of your own, {} bytes of it, is a tensor that is written and "
          "read: hold a row of it at most.\n",
          thousands(scratch.written));
    }
    if (excess == 0) {
      say(fmt::format("bytes   {} at {}, as in the ledger\n", thousands(moved),
                      shape_of(stage.at())));
      return true;
    }
    say(fmt::format("bytes   {} at {}, {} in the ledger\n\n{}\n", thousands(moved),
                    shape_of(stage.at()), thousands(on_paper), table.render()));
    return stop(Standing::too_many_bytes,
                fmt::format("Right, but not done: {} bytes too many.\n{}", thousands(excess),
                            advice.substr(0, advice.size() - 1)));
  }

  Figures on_paper_of(const std::string& tensor) const {
    const auto bytes = [&](const std::vector<Tensor>& side) {
      std::int64_t sum = 0;
      for (const Tensor& entry : side) sum += entry.name == tensor ? entry.bytes() : 0;
      return sum;
    };
    return {bytes(exercise_.counted.ledger.reads), bytes(exercise_.counted.ledger.writes), 0};
  }

  // --- speed ------------------------------------------------------------------------------------

  bool speed() {
    if (!times_count) {
      say("speed   not graded: this build is not made for speed\n");
      return true;
    }
    Stage stage(exercise_.timed, Edge::front);
    const TimingOptions timing{
        .warmup = 1, .min_samples = 7, .max_samples = 101, .max_seconds = 1.0};
    const GuardedMemory shared(sizeof(Bounded), Edge::back);
    auto* const share = shared.as<Bounded>();
    const ChildEnd end = run_in_child(
        [&] {
          const std::function<void()> contenders[] = {
              [&] { solution_.plain(stage.operands()); },
              [&] { submission_.plain(stage.operands()); },
          };
          std::vector<double> ratios;
          for (int round = 0; round < 3; ++round) {
            const auto samples = time_in_turn(contenders, [] {}, timing);
            for (std::size_t i = 0; i < samples[0].size(); ++i) {
              ratios.push_back(samples[0][i] / samples[1][i]);
            }
            *share = bounded_median(ratios);
            if (share->low >= options_.enough || share->high < options_.enough) break;
          }
        },
        {.seconds = 6 * options_.seconds});
    if (end.how == How::out_of_time) {
      return stop(Standing::too_slow,
                  fmt::format("Too slow: not timed within {:g} s at {}.\n{}", 6 * options_.seconds,
                              shape_of(stage.at()), exercise_.when_slow));
    }
    if (!returned(end, stage)) return false;
    say(fmt::format("speed   {} of the solution's at {}, from {} to {}; {} is enough\n",
                    percent(share->median, 0), shape_of(stage.at()), percent(share->low, 0),
                    percent(share->high, 0), percent(options_.enough, 0)));
    if (share->median >= options_.enough) return true;
    return stop(Standing::too_slow,
                "Right, with the right bytes, but too slow.\n" + exercise_.when_slow);
  }

  const Exercise& exercise_;
  const Submission& submission_;
  const Submission& solution_;
  const GradeOptions& options_;
  Standing standing_ = Standing::done;
  std::string report_;
};

}  // namespace

Grade grade(const Exercise& exercise, const Submission& submission, const Submission& solution,
            const GradeOptions& options) {
  return Grader(exercise, submission, solution, options).run();
}

int grade_program(const Exercise& exercise, const Submission& submission,
                  const Submission& solution) {
  omp_set_num_threads(1);
  const Grade given = grade(exercise, submission, solution);
  std::fputs(given.report.c_str(), stdout);
  return given.standing == Standing::done && std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace opbook
