// Pairs from both ends of the batch, so that it is mixed in place.
#include "mala/data/augment/mix.h"

#include <algorithm>
#include <cmath>

namespace mala::data {
namespace {

// As large as 1 - share of the picture, about a point anywhere, less what sticks out.
Region draw_cut(double share, int64_t side, Random& random) {
  const auto cut = static_cast<int64_t>(static_cast<double>(side) * std::sqrt(1.0 - share));
  const int64_t y = random.below(side), x = random.below(side);
  const int64_t top = std::max<int64_t>(y - cut / 2, 0), bottom = std::min(y + cut / 2, side);
  const int64_t left = std::max<int64_t>(x - cut / 2, 0), right = std::min(x + cut / 2, side);
  return {left, top, {right - left, bottom - top}};
}

void blend(float* a, float* b, int64_t numbers, float share) {
  for (int64_t i = 0; i < numbers; ++i) {
    const float x = a[i], y = b[i];
    a[i] = share * x + (1.0f - share) * y;
    b[i] = share * y + (1.0f - share) * x;
  }
}

void exchange(float* a, float* b, int64_t side, const Region& region) {
  for (int64_t y = 0; y < region.size.height; ++y) {
    const int64_t first = ((region.top + y) * side + region.left) * kChannels;
    std::swap_ranges(a + first, a + first + region.size.width * kChannels, b + first);
  }
}

}  // namespace

Mix draw_mix(const Augmentation& augmentation, int64_t image_size, Random& random) {
  const bool has_mixup = augmentation.mixup > 0.0, has_cutmix = augmentation.cutmix > 0.0;
  if (!(has_mixup || has_cutmix) || !random.chance(augmentation.mix_probability)) return {};
  const bool cuts = has_cutmix && (!has_mixup || random.chance(augmentation.mix_switch));
  const double alpha = cuts ? augmentation.cutmix : augmentation.mixup;
  const double share = random.beta(alpha, alpha);
  if (!cuts) return {false, share, {}};
  const Region region = draw_cut(share, image_size, random);
  const auto cut = static_cast<double>(region.size.width * region.size.height);
  return {true, 1.0 - cut / static_cast<double>(image_size * image_size), region};
}

void mix_batch(const Mix& mix, int64_t count, int64_t image_size, std::span<float> pixels) {
  if (mix.share == 1.0) return;
  const int64_t numbers = image_size * image_size * kChannels;
  for (int64_t i = 0; i < count / 2; ++i) {
    float* const a = pixels.data() + i * numbers;
    float* const b = pixels.data() + (count - 1 - i) * numbers;
    if (mix.cuts) {
      exchange(a, b, image_size, mix.region);
    } else {
      blend(a, b, numbers, static_cast<float>(mix.share));
    }
  }
}

}  // namespace mala::data
