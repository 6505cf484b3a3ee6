// Stands in for the chapter's .cu files where there is no CUDA compiler.

#include "ch02_roofline/multiply_add_chain.hpp"
#include "ch02_roofline/roofs.hpp"
#include "common/dtype.hpp"
#include "common/error.hpp"

namespace opbook::ch02::gpu {
namespace {

[[noreturn]] void unavailable() {
  throw DeviceUnavailable("cuda: there was no CUDA compiler when this was built");
}

}  // namespace

#define OPBOOK_UNAVAILABLE(function, T, ...) \
  template <>                                \
  void function<T>(Stream, __VA_ARGS__) {    \
    unavailable();                           \
  }
#define OPBOOK_STUBS(T)                                                                       \
  OPBOOK_UNAVAILABLE(multiply_add_chain, T, Row<const T>, float, float, std::int64_t, Row<T>) \
  OPBOOK_UNAVAILABLE(multiply_add_chain_unfused, T, Row<const T>, float, float, std::int64_t, \
                     Row<T>)
OPBOOK_STUBS(float)
OPBOOK_STUBS(float16)
OPBOOK_STUBS(bfloat16)
#undef OPBOOK_STUBS
#undef OPBOOK_UNAVAILABLE

}  // namespace opbook::ch02::gpu

namespace opbook::ch02 {

std::vector<Roof> measure_gpu_roofs(const MachineInfo&, bool) {
  gpu::unavailable();
}
OnChip gpu_on_chip() {
  gpu::unavailable();
}

}  // namespace opbook::ch02
