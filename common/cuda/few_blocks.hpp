#pragma once

#include <cstdint>

namespace opbook::gpu {

/// Blocks up to which a launch takes longer than what it launches: chapter 13's kernels for so few
/// are launched early (early.cuh). Only tests change it.
inline std::int64_t few_blocks = 512;

/// While it lives, `blocks` count as few: with 0 none do, and kernels for many are reached with
/// few.
class FewBlocks {
 public:
  explicit FewBlocks(std::int64_t blocks) : before_(few_blocks) { few_blocks = blocks; }
  ~FewBlocks() { few_blocks = before_; }
  FewBlocks(const FewBlocks&) = delete;
  FewBlocks& operator=(const FewBlocks&) = delete;

 private:
  std::int64_t before_;
};

}  // namespace opbook::gpu
