// Fused: sixteen bytes of each operand a thread, one after the other through memory. Four loads a
// thread are no faster: what counts is the order in which the whole card asks for addresses.

#include "ch13_norm_rope/scale_add.hpp"
#include "ch13_norm_rope/unfused.cuh"

namespace opbook::ch13::gpu {
namespace {

struct ScaleAdd {
  float a;
  __device__ float operator()(float v, float b) const { return fmaf(v, a, b); }
};
struct Scale {
  float a;
  __device__ float operator()(float v) const { return v * a; }
};

}  // namespace

template <class T>
void scale_add(Stream stream, Row<const std::type_identity_t<T>> x, float a,
               Row<const std::type_identity_t<T>> b, Row<T> y) {
  check_scale_add<T>(x, b, y);
  if (x.size == 0) return;
  map("scale_add", stream, one_row(y), on_vectors(x) && on_vectors(b),
      OfMatrices<T, ScaleAdd>{one_row(x), one_row(b), {a}});
}

template <class T>
void scale_add_unfused(Stream stream, Row<const std::type_identity_t<T>> x, float a,
                       Row<const std::type_identity_t<T>> b, Row<T> y,
                       Row<std::type_identity_t<T>> t) {
  check_scale_add<T>(x, b, y);
  require_size("t", t, x.size);
  if (x.size == 0) return;
  const Row<const T> scaled = t;
  map("t", stream, one_row(t), on_vectors(x), OfMatrix<T, Scale>{one_row(x), {a}});
  map("y", stream, one_row(y), on_vectors(t) && on_vectors(b),
      OfMatrices<T, Add>{one_row(scaled), one_row(b), {}});
}

#define OPBOOK_INSTANTIATE(T)                                                    \
  template void scale_add<T>(Stream, Row<const T>, float, Row<const T>, Row<T>); \
  template void scale_add_unfused<T>(Stream, Row<const T>, float, Row<const T>, Row<T>, Row<T>);
OPBOOK_INSTANTIATE(float)
OPBOOK_INSTANTIATE(float16)
OPBOOK_INSTANTIATE(bfloat16)
#undef OPBOOK_INSTANTIATE

}  // namespace opbook::ch13::gpu
