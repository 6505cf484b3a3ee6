#include "common/roofs.hpp"

#include <algorithm>
#include <memory>

#include "common/array.hpp"
#include "common/fast.hpp"

namespace opbook {
namespace {

/// The copy is cut into rows that a first-level cache holds, as an operator's tensors are.
constexpr std::int64_t row_elements = 4096;

template <class In, class Out>
std::function<void()> copy_rows(std::int64_t elements) {
  const std::int64_t m = std::max<std::int64_t>(1, elements / row_elements);
  const std::int64_t n = std::min(elements, row_elements);
  const std::shared_ptr<Array> from =
      std::make_shared<Array>("from", dtype_of<In>, std::vector<std::int64_t>{m, n});
  const std::shared_ptr<Array> to =
      std::make_shared<Array>("to", dtype_of<Out>, std::vector<std::int64_t>{m, n});
  std::fill_n(from->data<In>(), m * n, from_float<In>(1.5f));
  const std::shared_ptr<Fast> fast = std::make_shared<Fast>(Stores::streaming);
  return [=] {
    const Rows<const In> x = from->rows<In>();
    const Rows<Out> y = to->rows<Out>();
    fast->kernel("copy", x, y, [=](auto& row, std::int64_t i) {
      row.map(y.row(i), [](auto v) { return v; }, x.row(i));
    });
  };
}

}  // namespace

std::function<void()> copy_roof(std::int64_t bytes) {
  return copy_rows<float, float>(bytes / (2 * size_of(Dtype::float32)));
}

std::function<void()> converting_copy_roof(std::int64_t bytes, Dtype in, Dtype out) {
  const std::int64_t elements = bytes / (size_of(in) + size_of(out));
  return visit_input_dtype(in, [&]<class In>() -> std::function<void()> {
    if (out == Dtype::float8_e4m3fn) return copy_rows<In, float8_e4m3fn>(elements);
    return copy_rows<In, In>(elements);
  });
}

}  // namespace opbook
