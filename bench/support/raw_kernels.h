// Our kernels without torch's allocator and autograd: what the operator adds to them is seen by
// timing both.
#pragma once

#include <cstdint>
#include <functional>

#include "bench/support/inputs.h"

namespace mala::bench {

struct RawCall {
  std::function<Results()> run;  // writes into the same memory each time and returns it
  int64_t bytes = 0;             // scratch and state: all memory beyond inputs and results
};

// Of any form but decode.
RawCall raw_kernel_call(const Case& what, const Inputs& inputs);

}  // namespace mala::bench
