// Stands in for the chapter's .cu files where there is no CUDA compiler.

#include "ch28_design/qk_norm_rope_quant.hpp"
#include "common/error.hpp"

namespace opbook::ch28::gpu {
namespace {

[[noreturn]] void unavailable() {
  throw DeviceUnavailable("cuda: there was no CUDA compiler when this was built");
}

}  // namespace

template <class T>
void qk_norm_rope_quant(Stream, const QkHeads<T>&, const QuantisedHeads&, const QkOptions&) {
  unavailable();
}
template <class T>
void qk_norm_rope_quant_unfused(Stream, const QkHeads<T>&, const QuantisedHeads&,
                                const QkIntermediates<T>&, const QkOptions&) {
  unavailable();
}
void require_positions(Stream, const RopeTables<float>&) {
  unavailable();
}

#define OPBOOK_INSTANTIATE(T)                                                                   \
  template void qk_norm_rope_quant<T>(Stream, const QkHeads<T>&, const QuantisedHeads&,         \
                                      const QkOptions&);                                        \
  template void qk_norm_rope_quant_unfused<T>(Stream, const QkHeads<T>&, const QuantisedHeads&, \
                                              const QkIntermediates<T>&, const QkOptions&);
OPBOOK_INSTANTIATE(float16)
OPBOOK_INSTANTIATE(bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch28::gpu
