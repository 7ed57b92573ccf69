// RandAugment: some operations drawn from a list, with timm's list, strengths and option string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mala/data/augment/affine.h"
#include "mala/data/random.h"

namespace mala::data {

struct RandAugment {
  int64_t operations = 2;            // "n": drawn for each picture
  double magnitude = 10.0;           // "m": 0 to 10
  double magnitude_deviation = 0.0;  // "mstd": of the magnitude, drawn anew for each operation;
                                     // above 100 it is uniform from 0 to the magnitude
  double largest_magnitude = 10.0;   // "mmax"
  double probability = 0.5;          // "p": that a drawn operation is done
  bool increasing = false;           // "inc": a larger magnitude always changes more
};

// "m9-mstd0.5-inc1", or "rand-m9-mstd0.5-inc1" as timm writes it. Throws mala::Error that says
// which part is wrong and which there are.
RandAugment parse_rand_augment(const std::string& text);

// What colours and sizes the operations need to know.
struct RandAugmentFrame {
  Colour fill{128, 128, 128};
  bool bilinear = true, bicubic = true;  // which of them to draw from
};

void apply(const RandAugment& options, const RandAugmentFrame& frame, Random& random, Image& image);

// All operations by name, and one of them alone, for people to look at and for tests.
std::vector<std::string_view> rand_augment_operations();
void apply_operation(std::string_view name, double magnitude, const RandAugment& options,
                     const RandAugmentFrame& frame, Random& random, Image& image);

}  // namespace mala::data
