// How far results are from those in float64, and how far they may be.
#pragma once

#include <string>

#include "bench/support/inputs.h"

namespace mala::bench {

// The largest difference over the largest expected value, of all tensors; infinite where something
// is not finite. `expected` is in double.
double largest_error(const Results& actual, const Results& expected);

// Above this the results of an implementation count as wrong.
double allowed_error(const std::string& impl, DType dtype);

}  // namespace mala::bench
