#include "ch02_roofline/peak_loop.hpp"

namespace opbook::ch02::cpu {

const PeakLoop avx512_loops[2] = {
    {"AVX-512", "fp32", 16, true, multiply_adds<Register<float, 64>::type>},
    {"AVX-512", "fp64", 8, true, multiply_adds<Register<double, 64>::type>}};

}  // namespace opbook::ch02::cpu
