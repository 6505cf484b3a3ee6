#include "ch02_roofline/peak_loop.hpp"

namespace opbook::ch02::cpu {

const PeakLoop sse_loops[2] = {
    {"SSE", "fp32", 4, false, multiply_adds<Register<float, 16>::type>},
    {"SSE", "fp64", 2, false, multiply_adds<Register<double, 16>::type>}};

}  // namespace opbook::ch02::cpu
