// The ranges of the options.
#include "mala/data/augment/augmentation.h"

#include <cmath>

#include "mala/core/source.h"
#include "mala/data/augment/rand_augment.h"

namespace mala::data {
namespace {

constexpr const char* kWhere = "augmentation";

void check_probability(const char* name, double value) {
  check(value >= 0.0 && value <= 1.0, kWhere, name, " is ", value, ", needs 0 to 1");
}

void check_range(const char* name, double low, double high, double most) {
  check(low > 0.0 && low <= high && high <= most, kWhere, name, "_min is ", low, " and ", name,
        "_max ", high, "; they need 0 < min <= max <= ", most);
}

void check_alpha(const char* name, double value) {
  check(value >= 0.0 && value <= 1000.0, kWhere, name, " is ", value,
        ", needs 0 (off) to 1000; recipes have 0.2 to 1");
}

}  // namespace

void check_augmentation(const Augmentation& a) {
  check(a.crop == "resized" || a.crop == "padded" || a.crop == "centre", kWhere, "crop is ",
        in_quotes(a.crop), ", needs 'resized', 'padded' or 'centre'");
  check(
      a.interpolation == "bicubic" || a.interpolation == "bilinear" || a.interpolation == "random",
      kWhere, "interpolation is ", in_quotes(a.interpolation),
      ", needs 'bicubic', 'bilinear' or 'random'");
  check_range("scale", a.scale_min, a.scale_max, 1.0);
  check_range("ratio", a.ratio_min, a.ratio_max, 100.0);
  check(a.padding >= 0 && a.padding <= 10'000, kWhere, "padding is ", a.padding,
        ", needs 0 to 10000 pixels");
  check(a.colour_jitter >= 0.0 && a.colour_jitter <= 1.0, kWhere, "colour_jitter is ",
        a.colour_jitter, ", needs 0 (off) to 1");
  check_probability("flip", a.flip);
  check_probability("erase", a.erase);
  check_probability("mix_probability", a.mix_probability);
  check_probability("mix_switch", a.mix_switch);
  check_alpha("mixup", a.mixup);
  check_alpha("cutmix", a.cutmix);
  if (!a.rand_augment.empty()) parse_rand_augment(a.rand_augment);
}

}  // namespace mala::data
