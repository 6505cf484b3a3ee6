#pragma once

// A machine as the roofline sees it: bandwidths, peaks, sizes; off a data sheet or measured. The
// files are JSON:
//
//     {
//       "name": "NVIDIA H200 SXM",
//       "kind": "data_sheet",              or "measured"
//       "source": "where the figures come from",
//       "bandwidth_gbs": {"peak": 4800},   GB/s by mix, any of bandwidth_mixes: a data sheet has
//                                          "peak", a measured machine "copy"
//       "peak_tflops": {"fp32": 67},       TFLOP/s by unit, dense, any of compute_units; "fp32"
//                                          always
//       "sms": 132,                        multiprocessors (of a CPU: cores)
//       "on_chip_bytes_per_block": 232448, the largest shared memory that one block can have
//       "on_chip_bytes_per_sm": 233472,
//       "l2_bytes": 62914560,              the last-level cache
//       "memory_bytes": 141000000000       may be left out
//     }
//
// Further top-level fields may stand beside them.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace opbook {

enum class MachineKind { data_sheet, measured };

/// Read and write share the bytes of a mix: copy y = x and scale y = a*x 1 : 1, triad z = x + a*y
/// and mix_2_1 2 : 1.
inline constexpr std::string_view bandwidth_mixes[] = {"peak",  "read",  "write",  "copy",
                                                       "scale", "triad", "mix_2_1"};
inline constexpr std::string_view compute_units[] = {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8"};

struct Machine {
  std::string name;
  MachineKind kind = MachineKind::data_sheet;
  std::string source;
  std::map<std::string, double, std::less<>> bandwidth_gbs;  ///< GB/s by mix
  std::map<std::string, double, std::less<>> peak_tflops;    ///< TFLOP/s by unit, dense
  std::int64_t sms = 0;
  std::int64_t on_chip_bytes_per_block = 0;
  std::int64_t on_chip_bytes_per_sm = 0;
  std::int64_t l2_bytes = 0;
  std::optional<std::int64_t> memory_bytes;

  /// GB/s of a mix; where the file lacks it, of copy; where it lacks that too, the peak. Throws
  /// ArgumentError for a name that is not among bandwidth_mixes.
  double bandwidth_for(std::string_view mix = "copy") const;

  /// TFLOP/s of a unit; throws ArgumentError where the machine has none of that name.
  double peak_for(std::string_view unit = "fp32") const;

  /// FLOP/byte at which the unit and the memory (bandwidth_for copy) take equally long: peak /
  /// bandwidth (the book's section 2.2).
  double balance_point(std::string_view unit = "fp32") const;

  /// The speed of light in microseconds: max(bytes / bandwidth, FLOPs / peak) (section 2.2). Throws
  /// ArgumentError where bytes or FLOPs are negative.
  double t_sol_us(std::int64_t bytes, std::int64_t flops, std::string_view unit = "fp32") const;

  /// Whether FLOPs / bytes lies left of the balance point; false where there are no bytes.
  bool memory_bound(std::int64_t bytes, std::int64_t flops, std::string_view unit = "fp32") const;
};

/// The machines that go by a name: common/machines/NAME.json and results/NAME/machine.json under
/// this repository's root, by name; the former hides the latter.
std::map<std::string, std::filesystem::path> known_machines();

/// The data sheet that goes by a part of a machine's name, as h200 of "NVIDIA H200"; none where
/// there is no such.
std::optional<Machine> data_sheet_of(std::string_view machine_name);

/// Reads a machine by its name or, where the text holds a '/' or ends in ".json", from that file.
/// Throws ArgumentError, listing the known names, for an unknown one, and naming file and field
/// where a field is missing, of the wrong type, or no finite number above zero.
Machine load_machine(std::string_view name_or_file);

}  // namespace opbook
