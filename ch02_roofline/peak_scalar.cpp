#include "ch02_roofline/peak_loop.hpp"

namespace opbook::ch02::cpu {

const PeakLoop scalar_loops[2] = {{"scalar", "fp32", 1, false, multiply_adds<float>},
                                  {"scalar", "fp64", 1, false, multiply_adds<double>}};

}  // namespace opbook::ch02::cpu
