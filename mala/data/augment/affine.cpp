// Pixels spread to four floats, with the border repeated around, so that the inner loop is the same
// everywhere.
#include "mala/data/augment/affine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "mala/data/image/vectors.h"

namespace mala::data {
namespace {

// Red, green, blue and nothing. A plain array would be added up one by one.
using Pixel [[gnu::vector_size(16)]] = float;

constexpr int64_t kMargin = 2;  // how far a cubic reaches beyond the border

struct Spread {
  int64_t stride;
  std::vector<Pixel> pixels;

  explicit Spread(const Image& image)
      : stride(image.size.width + 2 * kMargin),
        pixels(static_cast<size_t>(stride * (image.size.height + 2 * kMargin))) {
    for (int64_t y = -kMargin; y < image.size.height + kMargin; ++y) {
      const uint8_t* const row = image.row(std::clamp<int64_t>(y, 0, image.size.height - 1));
      Pixel* const to = pixels.data() + (y + kMargin) * stride + kMargin;
      for (int64_t x = 0; x < image.size.width; ++x) {
        const uint8_t* const p = row + x * kChannels;
        to[x] = Pixel{static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]),
                      0.0f};
      }
      for (int64_t i = 1; i <= kMargin; ++i) {
        to[-i] = to[0];
        to[image.size.width - 1 + i] = to[image.size.width - 1];
      }
    }
  }

  const Pixel* at(int64_t x, int64_t y) const {
    return pixels.data() + (y + kMargin) * stride + x + kMargin;
  }
};

// Weights of the neighbours from kFirst on, for a point that lies `part` behind its pixel.
struct Bilinear {
  static constexpr int kTaps = 2, kFirst = 0;

  [[gnu::always_inline]] static void weigh(float part, float* weights) {
    weights[0] = 1.0f - part;
    weights[1] = part;
  }
};

// Keys' cubic with a = -1, which Pillow takes here, unlike where it resizes.
struct Bicubic {
  static constexpr int kTaps = 4, kFirst = -1;

  [[gnu::always_inline]] static void weigh(float part, float* weights) {
    const float square = part * part, cube = square * part;
    weights[0] = 2.0f * square - part - cube;
    weights[1] = 1.0f - 2.0f * square + cube;
    weights[2] = part + square - cube;
    weights[3] = cube - square;
  }
};

template <int kTaps>
[[gnu::always_inline]] inline Pixel weigh_row(const Pixel* row, const float* weights) {
  Pixel sum = row[0] * weights[0];
  for (int i = 1; i < kTaps; ++i) sum += row[i] * weights[i];
  return sum;
}

// Moves and shears along one side meet the rows or the columns exactly: then one of them is enough.
template <class Kernel>
[[gnu::always_inline]] inline Pixel sample(const Spread& from, double x, double y) {
  const double left = std::floor(x), top = std::floor(y);
  const auto right_by = static_cast<float>(x - left), down_by = static_cast<float>(y - top);
  const auto column = static_cast<int64_t>(left), line = static_cast<int64_t>(top);
  float across[Kernel::kTaps], down[Kernel::kTaps];
  Kernel::weigh(right_by, across);
  if (down_by == 0.0f) {
    return weigh_row<Kernel::kTaps>(from.at(column + Kernel::kFirst, line), across);
  }
  Kernel::weigh(down_by, down);
  Pixel sum{};
  for (int i = 0; i < Kernel::kTaps; ++i) {
    const Pixel* const row = from.at(column + Kernel::kFirst, line + Kernel::kFirst + i);
    sum += weigh_row<Kernel::kTaps>(row, across) * down[i];
  }
  return sum;
}

// Rounded down; sums of floats may end a little below a whole number.
[[gnu::always_inline]] inline uint8_t level_of(float sum) {
  constexpr float kAlmost = 1.0f / 1024;
  return static_cast<uint8_t>(std::clamp(sum + kAlmost, 0.0f, 255.0f));
}

template <class Kernel>
[[gnu::always_inline]] inline void transform_row(const Spread& from, Size size,
                                                 const Affine& affine, double y, uint8_t* to) {
  const auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  for (int64_t i = 0; i < size.width; ++i, to += kChannels) {
    const double x = static_cast<double>(i) + 0.5;
    const double from_x = affine.xx * x + affine.xy * y + affine.x0;
    const double from_y = affine.yx * x + affine.yy * y + affine.y0;
    if (!(from_x >= 0 && from_x < width && from_y >= 0 && from_y < height)) continue;
    const Pixel sum = sample<Kernel>(from, from_x - 0.5, from_y - 0.5);
    for (int c = 0; c < kChannels; ++c) to[c] = level_of(sum[c]);
  }
}

MALA_EVERY_VECTOR
void transform_bilinear(const Spread& from, const Affine& affine, Image& out) {
  for (int64_t y = 0; y < out.size.height; ++y) {
    transform_row<Bilinear>(from, out.size, affine, static_cast<double>(y) + 0.5, out.row(y));
  }
}

MALA_EVERY_VECTOR
void transform_bicubic(const Spread& from, const Affine& affine, Image& out) {
  for (int64_t y = 0; y < out.size.height; ++y) {
    transform_row<Bicubic>(from, out.size, affine, static_cast<double>(y) + 0.5, out.row(y));
  }
}

}  // namespace

Image transform(const Image& image, const Affine& affine, const Frame& frame) {
  Image out(image.size);
  for (size_t i = 0; i < out.pixels.size(); i += kChannels) {
    std::memcpy(&out.pixels[i], frame.fill.data(), kChannels);
  }
  const Spread from(image);
  if (frame.filter == Filter::kBilinear) {
    transform_bilinear(from, affine, out);
  } else {
    transform_bicubic(from, affine, out);
  }
  return out;
}

Affine rotation(double degrees, Size size) {
  const double angle = -degrees * std::numbers::pi / 180.0;
  // To fifteen digits as in Pillow, or quarter turns would miss the border by a hair.
  const double cosine = std::round(std::cos(angle) * 1e15) / 1e15;
  const double sine = std::round(std::sin(angle) * 1e15) / 1e15;
  const double x = static_cast<double>(size.width) / 2, y = static_cast<double>(size.height) / 2;
  return {.xx = cosine,
          .xy = sine,
          .x0 = x - cosine * x - sine * y,
          .yx = -sine,
          .yy = cosine,
          .y0 = y + sine * x - cosine * y};
}

}  // namespace mala::data
