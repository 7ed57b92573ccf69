// Which model a file of weights is for, told by the names and shapes of its arrays.
#pragma once

#include "mala/io/weights.h"
#include "mala/models/vision/catalogue.h"

namespace mala::models {

// Widths, depths, heads and classes as the arrays have them. Where a known model has the same, it
// is that one; otherwise it is called "mavit" or "deit", attends as the released models do, and has
// their stem. Mixers cannot be told from weights. Throws mala::Error that names the file when it
// holds neither.
VisionConfig recognise(const io::Weights& weights, const std::string& path);

// How many classes the weights are for; 0 where they have no head.
int64_t count_classes(const io::Weights& weights);

}  // namespace mala::models
