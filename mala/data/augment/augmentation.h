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

// The one list of fields, each with its name and a word on it, for whoever reads, prints or
// overrides them by name.
template <class AnyAugmentation, class Visit>
void visit_fields(AnyAugmentation& a, Visit&& visit) {
  visit("crop", a.crop, "resized, padded or centre");
  visit("scale_min", a.scale_min, "least part of the area that a resized crop has");
  visit("scale_max", a.scale_max, "largest part");
  visit("ratio_min", a.ratio_min, "least width by height of a resized crop");
  visit("ratio_max", a.ratio_max, "largest");
  visit("padding", a.padding, "pixels by which a padded crop may move");
  visit("interpolation", a.interpolation, "bicubic, bilinear or random");
  visit("flip", a.flip, "probability of left for right");
  visit("rand_augment", a.rand_augment, "as m9-mstd0.5-inc1; empty: none");
  visit("colour_jitter", a.colour_jitter, "brightness, contrast and colour times 1 ± this");
  visit("erase", a.erase, "probability of a rectangle of noise");
  visit("mixup", a.mixup, "alpha of mixing two pictures; 0: none");
  visit("cutmix", a.cutmix, "alpha of pasting a part of another; 0: none");
  visit("mix_probability", a.mix_probability, "that a batch is mixed at all");
  visit("mix_switch", a.mix_switch, "that it is CutMix, where both are on");
}

// Throws mala::Error that names the field when one is out of its range.
void check_augmentation(const Augmentation& augmentation);

}  // namespace mala::data
