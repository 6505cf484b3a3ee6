#include <cublasLt.h>
#include <cuda_runtime.h>

#include <string>

#include "ch02_roofline/matmul.hpp"
#include "common/cuda/launch.cuh"

namespace opbook::ch02::gpu {
namespace {

using namespace opbook::gpu;

struct Kind {
  std::string_view unit;
  cudaDataType_t operand, result;
  cublasComputeType_t compute;
  int operand_bytes, result_bytes;
};
constexpr Kind kinds[] = {
    {"fp16", CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, 2, 2},
    {"bf16", CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 2, 2},
    {"fp8", CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 1, 2},
    {"tf32", CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 4, 4},
};

const Kind& kind_of(std::string_view unit) {
  for (const Kind& kind : kinds) {
    if (kind.unit == unit) return kind;
  }
  throw ArgumentError("unit: got \"" + std::string(unit) + "\"; allowed: fp16, bf16, fp8, tf32");
}

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CudaError(std::string(what) + ": " + cublasLtGetStatusString(status));
}

/// Four bytes of numbers between 1/2 and 1 of both signs, no two words alike.
__global__ void fill_operand(std::uint32_t* words, std::int64_t count, std::uint32_t keep,
                             std::uint32_t exponent) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= count) return;
  std::uint32_t h = static_cast<std::uint32_t>(i) * 0x9E3779B9u;
  h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
  words[i] = ((h ^ (h >> 13)) & keep) | exponent;
}

void fill(const Kind& kind, DeviceMemory& memory) {
  // Sign and fraction of each number in the word, and the exponent of 1/2.
  const auto [keep, exponent] = kind.unit == "fp16"   ? std::pair(0x83FF83FFu, 0x38003800u)
                                : kind.unit == "bf16" ? std::pair(0x807F807Fu, 0x3F003F00u)
                                : kind.unit == "fp8"  ? std::pair(0x87878787u, 0x30303030u)
                                                      : std::pair(0x807FFFFFu, 0x3F000000u);
  const std::int64_t words = memory.bytes() / 4;
  launch("fill operand", nullptr, fill_operand, blocks_for("words", (words + 255) / 256), 256, 0,
         reinterpret_cast<std::uint32_t*>(memory.data()), words, keep, exponent);
}

}  // namespace

struct Matmul::State {
  State(const Kind& kind_, std::int64_t size_)
      : kind(kind_),
        size(size_),
        a(size * size * kind.operand_bytes),
        b(size * size * kind.operand_bytes),
        d(size * size * kind.result_bytes),
        workspace(64 << 20) {}
  ~State() {
    for (const cublasLtMatrixLayout_t layout : {a_layout, b_layout, d_layout}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
    if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
    if (preference != nullptr) cublasLtMatmulPreferenceDestroy(preference);
    if (handle != nullptr) cublasLtDestroy(handle);
  }

  void describe() {
    check(cublasLtCreate(&handle), "cublasLtCreate");
    check(cublasLtMatmulDescCreate(&operation, kind.compute, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    const cublasOperation_t transposed = CUBLAS_OP_T;  // the one form that fp8 has
    check(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                         sizeof transposed),
          "cublasLtMatmulDescSetAttribute");
    const auto layout = [&](cublasLtMatrixLayout_t& made, cudaDataType_t type) {
      const std::uint64_t n = static_cast<std::uint64_t>(size);
      check(cublasLtMatrixLayoutCreate(&made, type, n, n, size), "cublasLtMatrixLayoutCreate");
    };
    layout(a_layout, kind.operand);
    layout(b_layout, kind.operand);
    layout(d_layout, kind.result);
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const std::uint64_t bytes = static_cast<std::uint64_t>(workspace.bytes());
    check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &bytes, sizeof bytes),
          "cublasLtMatmulPreferenceSetAttribute");
  }

  cublasStatus_t try_algorithm(const cublasLtMatmulAlgo_t& candidate, Stream stream) {
    const float one = 1, zero = 0;
    return cublasLtMatmul(handle, operation, &one, a.data(), a_layout, b.data(), b_layout, &zero,
                          d.data(), d_layout, d.data(), d_layout, &candidate, workspace.data(),
                          static_cast<std::size_t>(workspace.bytes()), stream);
  }

  void choose_algorithm() {
    constexpr int most = 8;
    cublasLtMatmulHeuristicResult_t found[most];
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, operation, a_layout, b_layout, d_layout, d_layout, preference, most, found, &count);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
      throw DeviceUnavailable("cuBLASLt knows no product of " + std::string(kind.unit) +
                              " on this device");
    }
    double best_us = 0;
    Event before, after;
    for (int i = 0; i < count; ++i) {
      if (try_algorithm(found[i].algo, nullptr) != CUBLAS_STATUS_SUCCESS) continue;
      before.record(nullptr);
      for (int run = 0; run < 3; ++run) try_algorithm(found[i].algo, nullptr);
      after.record(nullptr);
      const double us = after.microseconds_since(before);
      if (best_us == 0 || us < best_us) {
        best_us = us;
        algorithm = found[i].algo;
      }
    }
    if (best_us == 0) {
      throw DeviceUnavailable("cuBLASLt runs no product of " + std::string(kind.unit) +
                              " on this device");
    }
  }

  Kind kind;
  std::int64_t size;
  DeviceMemory a, b, d, workspace;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a_layout = nullptr, b_layout = nullptr, d_layout = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

Matmul::Matmul(std::string_view unit, std::int64_t size)
    : state_(std::make_unique<State>(kind_of(unit), size)) {
  fill(state_->kind, state_->a);
  fill(state_->kind, state_->b);
  state_->describe();
  state_->choose_algorithm();
}

Matmul::~Matmul() = default;
Matmul::Matmul(Matmul&&) noexcept = default;

void Matmul::run(Stream stream) {
  check(state_->try_algorithm(state_->algorithm, stream), "cublasLtMatmul");
}

double Matmul::flops() const {
  const double n = static_cast<double>(state_->size);
  return 2 * n * n * n;
}

}  // namespace opbook::ch02::gpu
