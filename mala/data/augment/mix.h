// Mixup and CutMix: each picture of a batch with another one, from the far end of the batch.
#pragma once

#include <span>

#include "mala/data/augment/augmentation.h"
#include "mala/data/image/region.h"
#include "mala/data/random.h"

namespace mala::data {

// How a whole batch is mixed. `share` is what stays of each picture: for CutMix the part of the
// area outside `region`, for mixup a weight of all pixels.
struct Mix {
  bool cuts = false;
  double share = 1.0;  // 1: nothing is mixed
  Region region;
};

// As timm draws it for a batch.
Mix draw_mix(const Augmentation& augmentation, int64_t image_size, Random& random);

// Picture i takes from picture count - 1 - i. `pixels` are (count, size, size, 3).
void mix_batch(const Mix& mix, int64_t count, int64_t image_size, std::span<float> pixels);

}  // namespace mala::data
