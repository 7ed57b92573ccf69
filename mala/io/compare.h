// What a model wants against what a file has.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "mala/io/weights.h"

namespace mala::io {

struct WantedArray {
  std::string name;
  Shape shape;
};

// Each entry is a name; of another shape, also both shapes. Missing and reshaped are in the order
// of what is wanted, which is the model's own.
struct Difference {
  std::vector<std::string> missing, unexpected, reshaped;

  bool empty() const { return missing.empty() && unexpected.empty() && reshaped.empty(); }
};

Difference compare(const Weights& weights, std::span<const WantedArray> wanted);

// One line that names the first of each kind and counts the rest; empty without a difference.
std::string describe(const Difference& difference);

}  // namespace mala::io
