// What training does to pictures so that none is seen twice alike; each a named option.
#pragma once

#include <cstdint>
#include <string>

namespace mala::data {

// The defaults crop and flip alone. The published recipe adds rand_augment = "m9-mstd0.5-inc1",
// erase = 0.25, mixup = 0.8 and cutmix = 1.0.
struct Augmentation {
  std::string crop = "resized";              // "resized", "padded", or "centre" as in evaluation
  double scale_min = 0.08, scale_max = 1.0;  // "resized": part of the area
  double ratio_min = 3.0 / 4.0, ratio_max = 4.0 / 3.0;  // "resized": width by height
  int64_t padding = 4;                                  // "padded": black pixels on every side
  std::string interpolation = "bicubic";                // "bicubic", "bilinear" or "random"
  double flip = 0.5;                                    // probability
  std::string rand_augment{};                           // such as "m9-mstd0.5-inc1"; empty: none
  double colour_jitter = 0.0;    // brightness, contrast and colour times 1 - this to 1 + this
  double erase = 0.0;            // probability of a rectangle of noise
  double mixup = 0.0;            // alpha of the share's beta distribution; 0: none
  double cutmix = 0.0;           // the same
  double mix_probability = 1.0;  // of a batch, that it is mixed at all
  double mix_switch = 0.5;       // of CutMix rather than mixup, where both are on
};

// The one list of fields, for whoever reads, prints or overrides them by name.
template <class AnyAugmentation, class Visit>
void visit_fields(AnyAugmentation& a, Visit&& visit) {
  visit("crop", a.crop);
  visit("scale_min", a.scale_min);
  visit("scale_max", a.scale_max);
  visit("ratio_min", a.ratio_min);
  visit("ratio_max", a.ratio_max);
  visit("padding", a.padding);
  visit("interpolation", a.interpolation);
  visit("flip", a.flip);
  visit("rand_augment", a.rand_augment);
  visit("colour_jitter", a.colour_jitter);
  visit("erase", a.erase);
  visit("mixup", a.mixup);
  visit("cutmix", a.cutmix);
  visit("mix_probability", a.mix_probability);
  visit("mix_switch", a.mix_switch);
}

// Throws mala::Error that names the field when one is out of its range.
void check_augmentation(const Augmentation& augmentation);

}  // namespace mala::data
