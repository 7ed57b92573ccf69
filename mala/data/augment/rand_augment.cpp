// The list of operations, and what a magnitude means to each.
#include "mala/data/augment/rand_augment.h"

#include <algorithm>
#include <cmath>

#include "mala/core/error.h"
#include "mala/data/augment/blends.h"
#include "mala/data/augment/levels.h"

namespace mala::data {
namespace {

// What an operation is asked for.
struct Call {
  double part;  // magnitude / 10
  bool increasing;
  const RandAugmentFrame& frame;
  Random& random;
};

double either_sign(double value, Random& random) { return random.chance(0.5) ? -value : value; }

// 0.1 to 1.9; increasing, from 1 away to either side.
double enhancement(const Call& call) {
  if (!call.increasing) return call.part * 1.8 + 0.1;
  return std::max(0.1, 1.0 + either_sign(call.part * 0.9, call.random));
}

Frame draw_frame(const Call& call) {
  const RandAugmentFrame& frame = call.frame;
  const bool bilinear = frame.bilinear && (!frame.bicubic || call.random.chance(0.5));
  return {bilinear ? Filter::kBilinear : Filter::kBicubic, frame.fill};
}

void rotate(Image& image, const Call& call) {
  const double degrees = either_sign(call.part * 30.0, call.random);
  image = transform(image, rotation(degrees, image.size), draw_frame(call));
}

void shear_x(Image& image, const Call& call) {
  const Affine affine{.xy = either_sign(call.part * 0.3, call.random)};
  image = transform(image, affine, draw_frame(call));
}

void shear_y(Image& image, const Call& call) {
  const Affine affine{.yx = either_sign(call.part * 0.3, call.random)};
  image = transform(image, affine, draw_frame(call));
}

constexpr double kFarthest = 0.45;  // of the side

void translate_x(Image& image, const Call& call) {
  const double part = either_sign(call.part * kFarthest, call.random);
  const Affine affine{.x0 = part * static_cast<double>(image.size.width)};
  image = transform(image, affine, draw_frame(call));
}

void translate_y(Image& image, const Call& call) {
  const double part = either_sign(call.part * kFarthest, call.random);
  const Affine affine{.y0 = part * static_cast<double>(image.size.height)};
  image = transform(image, affine, draw_frame(call));
}

void posterize_by(Image& image, const Call& call) {
  const int bits = static_cast<int>(call.part * 4);
  posterize(image, std::clamp(call.increasing ? 4 - bits : bits, 0, 8));
}

void solarize_by(Image& image, const Call& call) {
  const int threshold = std::min(256, static_cast<int>(call.part * 256));
  solarize(image, call.increasing ? 256 - threshold : threshold);
}

void solarize_add_by(Image& image, const Call& call) {
  solarize_add(image, std::min(128, static_cast<int>(call.part * 110)));
}

struct Operation {
  std::string_view name;
  void (*apply)(Image& image, const Call& call);
};

constexpr Operation kOperations[] = {
    {"autocontrast", [](Image& image, const Call&) { autocontrast(image); }},
    {"equalize", [](Image& image, const Call&) { equalize(image); }},
    {"invert", [](Image& image, const Call&) { invert(image); }},
    {"rotate", rotate},
    {"posterize", posterize_by},
    {"solarize", solarize_by},
    {"solarize_add", solarize_add_by},
    {"colour", [](Image& image, const Call& c) { adjust_colour(image, enhancement(c)); }},
    {"contrast", [](Image& image, const Call& c) { adjust_contrast(image, enhancement(c)); }},
    {"brightness", [](Image& image, const Call& c) { adjust_brightness(image, enhancement(c)); }},
    {"sharpness", [](Image& image, const Call& c) { adjust_sharpness(image, enhancement(c)); }},
    {"shear_x", shear_x},
    {"shear_y", shear_y},
    {"translate_x", translate_x},
    {"translate_y", translate_y},
};

double draw_magnitude(const RandAugment& options, Random& random) {
  double magnitude = options.magnitude;
  if (options.magnitude_deviation > 100.0) {
    magnitude = random.uniform(0.0, magnitude);
  } else if (options.magnitude_deviation > 0.0) {
    magnitude += options.magnitude_deviation * random.normal();
  }
  return std::clamp(magnitude, 0.0, options.largest_magnitude);
}

}  // namespace

void apply(const RandAugment& options, const RandAugmentFrame& frame, Random& random,
           Image& image) {
  for (int64_t i = 0; i < options.operations; ++i) {
    const Operation& operation = kOperations[random.below(std::ssize(kOperations))];
    if (!random.chance(options.probability)) continue;
    const double part = draw_magnitude(options, random) / 10.0;
    operation.apply(image, {part, options.increasing, frame, random});
  }
}

std::vector<std::string_view> rand_augment_operations() {
  std::vector<std::string_view> names;
  for (const Operation& operation : kOperations) names.push_back(operation.name);
  return names;
}

void apply_operation(std::string_view name, double magnitude, const RandAugment& options,
                     const RandAugmentFrame& frame, Random& random, Image& image) {
  const auto found = std::ranges::find(kOperations, name, &Operation::name);
  check(found != std::end(kOperations), "rand_augment", "there is no operation '", name, "'");
  found->apply(image, {magnitude / 10.0, options.increasing, frame, random});
}

}  // namespace mala::data
