// From a source's picture to the numbers of one place in a batch.
#pragma once

#include <optional>
#include <span>

#include "mala/data/augment/rand_augment.h"
#include "mala/data/batches.h"

namespace mala::data {

// What BatchOptions ask for, with everything worked out that all pictures share.
class PictureMaker {
 public:
  // Throws mala::Error when an option is out of its range.
  explicit PictureMaker(const BatchOptions& options);

  // Eight-bit picture of image_size by image_size, before noise and normalisation.
  Image draw(const ImageSource& source, int64_t index, Random& random) const;

  // The same with noise, as numbers; `out` are (image_size, image_size, 3).
  void make(const ImageSource& source, int64_t index, Random& random, std::span<float> out) const;

 private:
  Filter draw_filter(Random& random) const;
  Image crop_of(const ImageSource& source, int64_t index, Random& random) const;
  Image middle_of(const ImageSource& source, int64_t index, Filter filter) const;

  Size size_;
  int64_t short_side_;
  Filter filter_;
  Normalization normalization_;
  std::optional<Augmentation> augmentation_;
  std::optional<RandAugment> rand_augment_;
  RandAugmentFrame frame_;
};

}  // namespace mala::data
