// The same weights in another type of floating-point number.
#pragma once

#include "mala/io/weights.h"

namespace mala::io {

// Every array of floats in the wanted type, rounded to the nearest; whole numbers and truth values
// stay as they are, and so do arrays that have the type already. Types with eight bits are neither
// read nor written. Throws mala::Error that names the source.
Weights cast_floats(Weights weights, ElementType to, const Source& source);

}  // namespace mala::io
