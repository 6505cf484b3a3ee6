#pragma once

// The sweep of k: the chain from one multiply-add an element to thousands, timed, and where the
// curve bends.

#include <span>
#include <string>
#include <vector>

#include "ch02_roofline/ledger.hpp"
#include "common/chapter.hpp"
#include "common/machine.hpp"
#include "common/results.hpp"

namespace opbook::ch02 {

/// Lengths from 1 to 4096: powers of two, and, unless quick, what lies half-way.
std::vector<std::int64_t> swept_steps(bool quick);

/// Elements of a chain that is to move `bytes`, fused. From k = 256 on fewer, in the same measure
/// as k grows: far beyond the bend time is by the FLOP, wherever the data lies.
std::int64_t swept_elements(std::int64_t bytes, std::int64_t k, Dtype dtype);

/// Times the sweep of every dtype (quick: float32 alone), fused, and unfused up to k = 16, beyond
/// which an unfused chain only takes longer in proportion. Verifies each dtype first: throws
/// CheckFailed where a chain is wrong. The rows' op is "multiply_add_chain (k 64)".
std::vector<ResultRow> time_sweep(Device device, const MachineInfo& machine, bool quick);

/// Where the sweep of one dtype bends, held against the balance point of measured roofs.
struct Bend {
  std::string dtype;
  double measured = 0;       ///< FLOP/byte
  double predicted = 0;      ///< the machine's balance point: fp32 peak over copy bandwidth
  double memory_share = 0;   ///< of the copy roof, left of the bend: the median of its rows
  double share_beside = 0;   ///< the same of the copies that took turns with the chain
  double compute_share = 0;  ///< of the fp32 peak, right of it
  int memory_rows = 0;       ///< how many rows each stands on
  int compute_rows = 0;

  double apart() const { return measured / predicted - 1; }
  bool agrees() const;  ///< within 15 %
};

/// The bend of every dtype that has rows on both sides of it. Time by the element is m, or k c,
/// whichever is longer; where m is the median over k <= bend / 4 and c the median over
/// k >= 4 bend, the bend is at k = m / c. AI there is k / e.
std::vector<Bend> find_bends(std::span<const ResultRow> rows, const Machine& machine);

/// A table, and, where a bend does not agree with its prediction, a line that says so and which
/// side it is that falls short.
std::string render_bends(std::span<const Bend> bends, const Machine& machine);

}  // namespace opbook::ch02
