// How much each pixel of a line adds to each pixel of the resized line.
#pragma once

#include <cstdint>
#include <vector>

#include "mala/data/image/resize.h"

namespace mala::data {

// Fixed point, so that sums of eight-bit pixels stay within 32 bits and equal Pillow's.
inline constexpr int kWeightBits = 32 - 8 - 2;

struct ResampleWeights {
  // The input pixels that output pixel i is made of: count[i] of them, from first[i] on, with the
  // weights from values[i * stride] on.
  std::vector<int64_t> first, count;
  std::vector<int32_t> values;
  int64_t stride = 0;

  const int32_t* of(int64_t i) const { return values.data() + i * stride; }
};

ResampleWeights make_weights(int64_t from, int64_t to, Filter filter);

}  // namespace mala::data
