// Where crops begin, drawn from the size of the picture alone.
#include "mala/data/augment/crop.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mala::data {
namespace {

int64_t rounded(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

// The whole, or what its longer side leaves within the allowed shapes.
Region widest_middle(Size size, const Augmentation& augmentation) {
  const auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  const double ratio = width / height;
  Size part = size;
  if (ratio < augmentation.ratio_min) part.height = rounded(width / augmentation.ratio_min);
  if (ratio > augmentation.ratio_max) part.width = rounded(height * augmentation.ratio_max);
  part.width = std::clamp<int64_t>(part.width, 1, size.width);
  part.height = std::clamp<int64_t>(part.height, 1, size.height);
  return {(size.width - part.width) / 2, (size.height - part.height) / 2, part};
}

}  // namespace

Region draw_resized_crop(Size size, const Augmentation& augmentation, Random& random) {
  const double area = static_cast<double>(size.width) * static_cast<double>(size.height);
  const double low = std::log(augmentation.ratio_min), high = std::log(augmentation.ratio_max);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double wanted = area * random.uniform(augmentation.scale_min, augmentation.scale_max);
    const double ratio = std::exp(random.uniform(low, high));
    const Size part{rounded(std::sqrt(wanted * ratio)), rounded(std::sqrt(wanted / ratio))};
    if (part.width < 1 || part.height < 1) continue;
    if (part.width > size.width || part.height > size.height) continue;
    const int64_t top = random.below(size.height - part.height + 1);
    const int64_t left = random.below(size.width - part.width + 1);
    return {left, top, part};
  }
  return widest_middle(size, augmentation);
}

Image draw_padded_crop(const Image& image, int64_t padding, Random& random) {
  const int64_t down = random.below(2 * padding + 1) - padding;
  const int64_t right = random.below(2 * padding + 1) - padding;
  Image out(image.size);
  const int64_t kept = image.size.width - std::abs(right);
  if (kept <= 0) return out;
  for (int64_t y = 0; y < image.size.height; ++y) {
    const int64_t from = y - down;
    if (from < 0 || from >= image.size.height) continue;
    std::memcpy(out.row(y) + std::max<int64_t>(right, 0) * kChannels,
                image.row(from) + std::max<int64_t>(-right, 0) * kChannels,
                static_cast<size_t>(kept * kChannels));
  }
  return out;
}

void mirror(Image& image) {
  for (int64_t y = 0; y < image.size.height; ++y) {
    uint8_t *left = image.row(y), *right = left + (image.size.width - 1) * kChannels;
    for (; left < right; left += kChannels, right -= kChannels) {
      std::swap_ranges(left, left + kChannels, right);
    }
  }
}

}  // namespace mala::data
