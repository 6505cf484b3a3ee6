// Stands in for the chapter's .cu files where there is no CUDA compiler.

#include "ch13_norm_rope/add_rms_norm.hpp"
#include "ch13_norm_rope/layer_norm.hpp"
#include "ch13_norm_rope/rms_norm.hpp"
#include "ch13_norm_rope/rms_norm_rope_quant.hpp"
#include "ch13_norm_rope/rope.hpp"
#include "ch13_norm_rope/scale_add.hpp"
#include "ch13_norm_rope/steps.hpp"
#include "common/error.hpp"

namespace opbook::ch13::gpu {
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
#define OPBOOK_STUBS(T)                                                                            \
  OPBOOK_UNAVAILABLE(scale_add, T, Row<const T>, float, Row<const T>, Row<T>)                      \
  OPBOOK_UNAVAILABLE(scale_add_unfused, T, Row<const T>, float, Row<const T>, Row<T>, Row<T>)      \
  OPBOOK_UNAVAILABLE(rms_norm, T, Rows<const T>, Row<const T>, Rows<T>, const RmsNormOptions&)     \
  OPBOOK_UNAVAILABLE(rms_norm_unfused, T, Rows<const T>, Row<const T>, Rows<T>,                    \
                     const RmsNormIntermediates<T>&, const RmsNormOptions&)                        \
  OPBOOK_UNAVAILABLE(add_rms_norm, T, Rows<const T>, Rows<const T>, Row<const T>, Rows<T>,         \
                     Rows<T>, const RmsNormOptions&)                                               \
  OPBOOK_UNAVAILABLE(add_rms_norm_unfused, T, Rows<const T>, Rows<const T>, Row<const T>, Rows<T>, \
                     Rows<T>, const RmsNormIntermediates<T>&, const RmsNormOptions&)               \
  OPBOOK_UNAVAILABLE(layer_norm, T, Rows<const T>, Row<const T>, Row<const T>, Rows<T>, float)     \
  OPBOOK_UNAVAILABLE(layer_norm_unfused, T, Rows<const T>, Row<const T>, Row<const T>, Rows<T>,    \
                     const LayerNormIntermediates<T>&, float)                                      \
  OPBOOK_UNAVAILABLE(rope, T, Rows<const T>, const RopeTables<T>&, Rows<T>)                        \
  OPBOOK_UNAVAILABLE(rope_unfused, T, Rows<const T>, const RopeTables<T>&, Rows<T>,                \
                     const RopeIntermediates<T>&)                                                  \
  OPBOOK_UNAVAILABLE(rms_norm_rope, T, Rows<const T>, Row<const T>, const RopeTables<T>&, Rows<T>, \
                     const RmsNormOptions&)                                                        \
  OPBOOK_UNAVAILABLE(rms_norm_rope_unfused, T, Rows<const T>, Row<const T>, const RopeTables<T>&,  \
                     Rows<T>, Rows<T>, const RmsNormOptions&)                                      \
  OPBOOK_UNAVAILABLE(rms_norm_rope_quant, T, Rows<const T>, Row<const T>, const RopeTables<T>&,    \
                     const Quantised<T>&, const RmsNormRopeQuantOptions&)                          \
  OPBOOK_UNAVAILABLE(rms_norm_step, T, RmsNormStep, Rows<const T>, Row<const T>, Rows<T>,          \
                     const RmsNormOptions&)                                                        \
  OPBOOK_UNAVAILABLE(rms_norm_rope_quant_step, T, QuantStep, Rows<const T>, Row<const T>,          \
                     const RopeTables<T>&, const Quantised<T>&, const RmsNormRopeQuantOptions&)    \
  OPBOOK_UNAVAILABLE(rms_norm_rope_quant_unfused, T, Rows<const T>, Row<const T>,                  \
                     const RopeTables<T>&, const Quantised<T>&, Rows<T>,                           \
                     const RmsNormRopeQuantOptions&)
OPBOOK_STUBS(float)
OPBOOK_STUBS(float16)
OPBOOK_STUBS(bfloat16)
#undef OPBOOK_STUBS
#undef OPBOOK_UNAVAILABLE

}  // namespace opbook::ch13::gpu
