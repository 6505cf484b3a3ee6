#include <fmt/format.h>

#include "ch02_roofline/sweep.hpp"
#include "common/table.hpp"

namespace opbook::ch02 {
namespace {

/// What a bend that lies elsewhere says of the two sides: it lies at the balance point times the
/// share of the peak over the share of the copy. Where copies beside the chain were not as fast as
/// the roof's, the machine has changed between the two.
std::string why_apart(const Bend& bend) {
  const double drift = bend.memory_share / bend.share_beside;
  return fmt::format(
      "{}: the curve bends at {:.2f} FLOP/byte, {:+.0f} % from the balance point: left of it the "
      "chain moves its bytes at {:.0f} % of the roof's copy, right of it it computes at {:.0f} % "
      "of "
      "the peak.{}\n",
      bend.dtype, bend.measured, 100 * bend.apart(), 100 * bend.memory_share,
      100 * bend.compute_share,
      drift > 0.9 && drift < 1.1
          ? ""
          : fmt::format(" Copies beside the chain ran at {:.0f} % of the roof's.", 100 * drift));
}

}  // namespace

std::string render_bends(std::span<const Bend> bends, const Machine& machine) {
  std::string text = fmt::format(
      "The sweep of k: where time stops to be by the byte. Balance point of the roofs: {:.1f} "
      "GFLOP/s\n(fp32) over {:.1f} GB/s (copy) = {:.2f} FLOP/byte.\n\n",
      machine.peak_for("fp32") * 1e3, machine.bandwidth_for("copy"), machine.balance_point("fp32"));
  if (bends.empty()) return text + "No dtype has rows on both sides of its bend.\n";
  Table table({{"dtype", Align::left},
               {"bend, FLOP/byte"},
               {"at k"},
               {"apart"},
               {"% of roof's copy"},
               {"% of peak"},
               {"verdict", Align::left}});
  std::string lines;
  for (const Bend& bend : bends) {
    const double element_bytes = bend.dtype == "float32" ? 4 : 2;
    table.add_row({bend.dtype, fixed(bend.measured, 2), fixed(bend.measured * element_bytes, 0),
                   fmt::format("{:+.1f} %", 100 * bend.apart()), fixed(100 * bend.memory_share, 0),
                   fixed(100 * bend.compute_share, 0),
                   bend.agrees() ? "agrees within 15 %" : "does not agree"});
    if (!bend.agrees()) lines += why_apart(bend);
  }
  return text + table.render() + lines;
}

}  // namespace opbook::ch02
