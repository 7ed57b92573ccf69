// The definition of the operator, in float64, on the tensors of a case.
#pragma once

#include "bench/support/inputs.h"

namespace mala::bench {

// From inputs of the case in double. Slow: ten microseconds for a token of a head of 64.
Results definition(const Case& what, const Inputs& inputs);

}  // namespace mala::bench
