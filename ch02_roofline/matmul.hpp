#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "common/cuda/device.hpp"

namespace opbook::ch02::gpu {

using opbook::gpu::Stream;

/// A square product of matrices by cuBLASLt, accumulated in fp32: the quickest of the algorithms
/// that its heuristic names first. The operands hold numbers between 1/2 and 1 of both signs.
class Matmul {
 public:
  /// unit: "fp16", "bf16", "fp8" (e4m3, result in bf16) or "tf32" (of float32). Throws
  /// DeviceUnavailable, with the reason, where this was built without the library or it knows no
  /// way on this device.
  Matmul(std::string_view unit, std::int64_t size);
  ~Matmul();
  Matmul(Matmul&&) noexcept;

  void run(Stream stream);
  double flops() const;  ///< 2 size^3

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace opbook::ch02::gpu
