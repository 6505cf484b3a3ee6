#pragma once

// What the subcommands that run operators (verify, bench, cache, show) need to know of a chapter,
// and the subcommands themselves, the same in every chapter's program.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/array.hpp"
#include "common/cli.hpp"
#include "common/problem.hpp"

namespace opbook {

/// Inputs that the reader brought as files, by tensor name.
using Files = std::map<std::string, Array, std::less<>>;

struct Chapter {
  std::string name;  ///< "ch13": also the name of its results file

  /// Flags that set an operator's arguments, "--op" not among them.
  std::vector<Flag> argument_flags;
  /// Inputs that may be brought as `--<name> FILE.npy`.
  std::vector<std::string> input_names;

  /// One operator at the size that flags and files ask for. Throws ArgumentError for what does not
  /// go together.
  std::function<Problem(const std::string& op, const GivenFlags&, const Files&)> make_problem;
  /// What `verify` runs when no operator is named: every operator, dtype and kind of shape.
  std::function<std::vector<Problem>()> verification_problems;
  /// What `bench` runs when no operator is named: each moves about `bytes`, fused.
  std::function<std::vector<Problem>(std::int64_t bytes)> benchmark_problems;
  /// The same for a GPU: a grid of shapes, or, `quick`, few of them.
  std::function<std::vector<Problem>(bool quick)> device_benchmark_problems;
  /// Operators that have steps (problem.hpp), and the arguments that `bench --plan` gives them
  /// where its own flags do not.
  std::vector<std::string> stepped_operators;
  GivenFlags step_arguments;
  /// Where `cache` begins, after no cache at all; then twice as large, and so on.
  std::int64_t smallest_cache_bytes = 16 << 10;
};

/// Throws ArgumentError where an operator's argument or file is given without --op.
void refuse_without_op(const Chapter& chapter, const GivenFlags& given);

/// What operators run on.
enum class Device { cpu, cuda };
std::string_view name_of(Device device);

/// The flag that every subcommand that runs operators takes.
Flag device_flag();

/// Reads --device; without it, cuda where there is a device that runs our kernels, else cpu. Throws
/// ArgumentError for anything but cpu and cuda, DeviceUnavailable, with the reason, where cuda was
/// asked for and is not there.
Device chosen_device(const GivenFlags& given);

/// One line of progress on stderr, over the one before, where stderr is a terminal; empty clears
/// it.
void progress(const std::string& line);

/// `verify [--op OP, with its arguments' flags] [--<input> FILE.npy ...] [--save DIR] [--seed N]
/// [--device cpu|cuda] [--json]`: values against the reference; on the CPU, replay against the
/// ledger; on a GPU, two runs against each other.
Subcommand verify_subcommand(const Chapter& chapter);

/// `bench [--op OP, with its arguments' flags] [--quick] [--device cpu|cuda] [--out FILE]
/// [--json]`: both plans against the clock, written as results; with `--plan STEP|steps` one or all
/// of the steps that an operator's fused plan came by, on a GPU.
Subcommand bench_subcommand(const Chapter& chapter);

/// `cache [--op OP, with its arguments' flags] [--json]`: memory traffic of both plans by the size
/// of the cache, from one replay.
Subcommand cache_subcommand(const Chapter& chapter);

/// `show [--results FILE]`: results as a table: ledger, replay, counters, clock.
Subcommand show_subcommand(const Chapter& chapter);

/// `once [--op OP, with its arguments' flags | --cell N [--quick]] [--plan unfused|fused]`: one
/// plan run once on the GPU, untimed and unchecked, so that a profiler has one thing to look at.
Subcommand once_subcommand(const Chapter& chapter);

}  // namespace opbook
