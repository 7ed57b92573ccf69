// The order of things: crop, mirror, RandAugment, colour jitter, numbers, noise. It is timm's.
#include "mala/data/augment/picture.h"

#include <algorithm>
#include <cmath>

#include "mala/core/error.h"
#include "mala/data/augment/blends.h"
#include "mala/data/augment/crop.h"
#include "mala/data/augment/erase.h"
#include "mala/data/augment/levels.h"

namespace mala::data {
namespace {

constexpr int64_t kMostImageSize = 8192;

// Operations fill what they uncover with the colour that normalises to about 0.
RandAugmentFrame frame_of(const BatchOptions& options) {
  RandAugmentFrame frame;
  for (size_t c = 0; c < kChannels; ++c) {
    const double level = std::nearbyint(255.0 * double{options.normalization.mean[c]});
    frame.fill[c] = static_cast<uint8_t>(std::clamp(level, 0.0, 255.0));
  }
  frame.bilinear = options.augmentation->interpolation != "bicubic";
  frame.bicubic = options.augmentation->interpolation != "bilinear";
  return frame;
}

// Brightness, contrast and colour in any order.
void jitter(Image& image, double strength, Random& random) {
  using Adjust = void (*)(Image&, double);
  std::array<Adjust, 3> adjustments{adjust_brightness, adjust_contrast, adjust_colour};
  for (int64_t left = std::ssize(adjustments); left > 0; --left) {
    Adjust& drawn = adjustments[static_cast<size_t>(random.below(left))];
    drawn(image, random.uniform(1.0 - strength, 1.0 + strength));
    drawn = adjustments[static_cast<size_t>(left - 1)];
  }
}

}  // namespace

PictureMaker::PictureMaker(const BatchOptions& options)
    : size_{options.image_size, options.image_size},
      short_side_(options.short_side > 0 ? options.short_side : options.image_size),
      filter_(options.filter),
      normalization_(options.normalization),
      augmentation_(options.augmentation) {
  constexpr const char* kWhere = "image_batches";
  check(options.image_size > 0 && options.image_size <= kMostImageSize, kWhere, "image_size is ",
        options.image_size, ", needs 1 to ", kMostImageSize);
  check(short_side_ >= options.image_size && short_side_ <= kMostImageSize, kWhere,
        "short_side is ", short_side_, ", needs image_size (", options.image_size, ") to ",
        kMostImageSize, ", or 0 for image_size itself");
  for (const float deviation : normalization_.deviation) {
    check(deviation > 0.0f, kWhere, "a deviation is ", deviation, ", needs more than 0");
  }
  if (!augmentation_) return;
  check_augmentation(*augmentation_);
  frame_ = frame_of(options);
  if (!augmentation_->rand_augment.empty()) {
    rand_augment_ = parse_rand_augment(augmentation_->rand_augment);
  }
}

Filter PictureMaker::draw_filter(Random& random) const {
  if (augmentation_->interpolation == "random") {
    return random.chance(0.5) ? Filter::kBilinear : Filter::kBicubic;
  }
  return augmentation_->interpolation == "bilinear" ? Filter::kBilinear : Filter::kBicubic;
}

Image PictureMaker::middle_of(const ImageSource& source, int64_t index, Filter filter) const {
  const Image image = source.read(index);
  const Size wanted = with_short_side(image.size, short_side_);
  return centre_crop(wanted == image.size ? image : resize(image, wanted, filter), size_);
}

Image PictureMaker::crop_of(const ImageSource& source, int64_t index, Random& random) const {
  const Augmentation& a = *augmentation_;
  if (a.crop != "resized") {
    const Image middle = middle_of(source, index, draw_filter(random));
    return a.crop == "padded" ? draw_padded_crop(middle, a.padding, random) : middle;
  }
  const Image part =
      source.read(index, [&](Size size) { return draw_resized_crop(size, a, random); });
  return resize(part, size_, draw_filter(random));
}

Image PictureMaker::draw(const ImageSource& source, int64_t index, Random& random) const {
  if (!augmentation_) return middle_of(source, index, filter_);
  Image image = crop_of(source, index, random);
  if (random.chance(augmentation_->flip)) mirror(image);
  if (rand_augment_) apply(*rand_augment_, frame_, random, image);
  if (augmentation_->colour_jitter > 0.0) jitter(image, augmentation_->colour_jitter, random);
  return image;
}

void PictureMaker::make(const ImageSource& source, int64_t index, Random& random,
                        std::span<float> out) const {
  normalize(draw(source, index, random), normalization_, PixelOrder::kPixels, out);
  if (!augmentation_ || !random.chance(augmentation_->erase)) return;
  if (const auto region = draw_erased(size_, random)) {
    fill_with_noise(out, size_, *region, random);
  }
}

}  // namespace mala::data
