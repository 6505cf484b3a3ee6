#pragma once

// The ledger: an operator's bytes and FLOPs on paper. A Kernel reads each of its inputs once and
// writes each of its outputs once; a Plan is a sequence of kernels; a Case holds two plans of one
// operator against each other. No caches, launches or tails: what hardware adds is for the other
// columns to show.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/dtype.hpp"

namespace opbook {

/// `book`: what the book's listings charge. `exact`: the same with the book's errata mended; what
/// replay must reproduce to the byte and to the operation.
enum class Convention { book, exact };

/// A tensor as the ledger sees it: distinct elements of one dtype.
struct Tensor {
  std::string name;
  std::int64_t elements = 0;
  Dtype dtype = Dtype::float32;

  std::int64_t bytes() const;  ///< throws ArgumentError beyond int64
};

/// One operator call.
struct Kernel {
  std::string name;
  std::vector<Tensor> reads;
  std::vector<Tensor> writes;
  std::int64_t flops = 0;

  std::int64_t read_bytes() const;
  std::int64_t write_bytes() const;
  std::int64_t moved_bytes() const;  ///< read_bytes + write_bytes
};

/// A sequence of kernels; its figures are sums over them.
struct Plan {
  std::vector<Kernel> kernels;

  std::int64_t read_bytes() const;
  std::int64_t write_bytes() const;
  std::int64_t moved_bytes() const;
  std::int64_t flops() const;
  double ai() const;  ///< arithmetic intensity, FLOP per byte moved
};

/// The same operator twice: kernel by kernel, and fused into one.
struct Case {
  std::string op;
  Plan unfused;
  Plan fused;

  double bytes_ratio() const;  ///< unfused bytes / fused bytes
};

/// {kernels, moved_bytes, flops, ai, ops: [{name, read_bytes, write_bytes, moved_bytes, flops}]}
nlohmann::ordered_json to_json(const Plan& plan);

}  // namespace opbook
