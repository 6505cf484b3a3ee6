#pragma once

#include "common/chapter.hpp"

namespace opbook::ch02 {

/// `bench` as every chapter has it; without --op: the machine's roofs, then the sweep of k. Writes
/// the sweep as results and, beside them, the roofs as a machine file: build/results/ch02.json and
/// ch02_machine.json (of a GPU ch02_cuda.json and ch02_cuda_machine.json), with --record
/// results/<machine>/ch02.json and machine.json.
Subcommand bench_subcommand(const Chapter& chapter);

/// `show` with the bends of the sweep behind the results, where the machine file that bench wrote
/// lies beside them.
Subcommand with_bends(Subcommand show);

/// `roofs [--machine FILE] [--results FILE]`: a measured machine file as tables and, where results
/// are given, the bends of the sweep in them. Default: what bench wrote last.
Subcommand roofs_subcommand();

}  // namespace opbook::ch02
