// Where noise goes, and the noise.
#include "mala/data/augment/erase.h"

#include <cmath>

namespace mala::data {

std::optional<Region> draw_erased(Size size, Random& random) {
  constexpr double kSmallest = 0.02, kLargest = 1.0 / 3.0, kFlattest = 0.3;
  const double area = static_cast<double>(size.width) * static_cast<double>(size.height);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double wanted = area * random.uniform(kSmallest, kLargest);
    const double ratio = std::exp(random.uniform(std::log(kFlattest), -std::log(kFlattest)));
    const Size part{std::lround(std::sqrt(wanted / ratio)), std::lround(std::sqrt(wanted * ratio))};
    if (part.width < 1 || part.height < 1) continue;
    if (part.width >= size.width || part.height >= size.height) continue;
    const int64_t top = random.below(size.height - part.height + 1);
    const int64_t left = random.below(size.width - part.width + 1);
    return Region{left, top, part};
  }
  return std::nullopt;
}

void fill_with_noise(std::span<float> pixels, Size size, const Region& region, Random& random) {
  for (int64_t y = 0; y < region.size.height; ++y) {
    float* const row = pixels.data() + ((region.top + y) * size.width + region.left) * kChannels;
    for (int64_t i = 0; i < region.size.width * kChannels; ++i) {
      row[i] = static_cast<float>(random.normal());
    }
  }
}

}  // namespace mala::data
