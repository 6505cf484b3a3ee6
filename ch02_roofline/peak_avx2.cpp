#include "ch02_roofline/peak_loop.hpp"

namespace opbook::ch02::cpu {

const PeakLoop avx2_loops[2] = {
    {"AVX2", "fp32", 8, true, multiply_adds<Register<float, 32>::type>},
    {"AVX2", "fp64", 4, true, multiply_adds<Register<double, 32>::type>}};

}  // namespace opbook::ch02::cpu
