// Stands in for matmul.cu where there is no cuBLASLt.

#include "ch02_roofline/matmul.hpp"
#include "common/error.hpp"

namespace opbook::ch02::gpu {

struct Matmul::State {};

Matmul::Matmul(std::string_view, std::int64_t) {
  throw DeviceUnavailable("cuBLASLt was not there when this was built");
}
Matmul::~Matmul() = default;
Matmul::Matmul(Matmul&&) noexcept = default;
void Matmul::run(Stream) {}
double Matmul::flops() const {
  return 0;
}

}  // namespace opbook::ch02::gpu
