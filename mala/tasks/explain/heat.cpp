// Colours of weights, and rings.
#include "mala/tasks/explain/heat.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "mala/core/error.h"

namespace mala::tasks {
namespace {

using Stops = std::array<std::array<double, 3>, 4>;  // even steps from 0 to 1
constexpr Stops kWarm{{{0, 0, 0}, {150, 22, 72}, {245, 104, 30}, {255, 226, 120}}};
constexpr Stops kCold{{{0, 0, 0}, {12, 52, 150}, {30, 130, 240}, {150, 225, 255}}};

constexpr double kDim = 0.55;  // of the picture's light, under a map

uint8_t level(double value) {
  return static_cast<uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
}

void put(data::Image& image, int64_t x, int64_t y, Colour colour) {
  uint8_t* pixel = image.row(y) + x * data::kChannels;
  pixel[0] = colour.red;
  pixel[1] = colour.green;
  pixel[2] = colour.blue;
}

double dim_grey(const uint8_t* pixel) {
  return kDim * (0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]);
}

double screen(double a, double b) { return 255 - (255 - a) * (255 - b) / 255; }

}  // namespace

Colour heat_colour(double value) {
  const Stops& stops = value < 0 ? kCold : kWarm;
  const double place = std::min(std::abs(value), 1.0) * static_cast<double>(stops.size() - 1);
  const size_t from = std::min(static_cast<size_t>(place), stops.size() - 2);
  const double part = place - static_cast<double>(from);
  const auto mixed = [&](size_t channel) {
    return level(stops[from][channel] * (1 - part) + stops[from + 1][channel] * part);
  };
  return {mixed(0), mixed(1), mixed(2)};
}

data::Image draw_heat(std::span<const float> weights, data::Size size) {
  check(static_cast<int64_t>(weights.size()) == size.width * size.height, "draw_heat", "got ",
        weights.size(), " weights for ", size.width, " x ", size.height, " tokens");
  double largest = 0;
  for (const float weight : weights) largest = std::max(largest, std::abs(double{weight}));
  data::Image image(size);
  if (largest == 0) return image;
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      const double weight = weights[static_cast<size_t>(y * size.width + x)];
      put(image, x, y, heat_colour(weight / largest));
    }
  }
  return image;
}

data::Image lay_over(const data::Image& picture, const data::Image& heat) {
  data::Image out(picture.size);
  for (int64_t y = 0; y < out.size.height; ++y) {
    const uint8_t* row = heat.row(y * heat.size.height / out.size.height);
    for (int64_t x = 0; x < out.size.width; ++x) {
      const uint8_t* warmth = row + x * heat.size.width / out.size.width * data::kChannels;
      const double grey = dim_grey(picture.row(y) + x * data::kChannels);
      const auto mixed = [&](int channel) { return level(screen(grey, warmth[channel])); };
      put(out, x, y, {mixed(0), mixed(1), mixed(2)});
    }
  }
  return out;
}

void draw_ring(data::Image& picture, double x, double y) {
  const auto width = static_cast<double>(picture.size.width);
  const auto height = static_cast<double>(picture.size.height);
  const double radius = std::max(2.0, std::min(width, height) / 32);
  const double thick = std::max(0.75, radius / 4);
  for (int64_t row = 0; row < picture.size.height; ++row) {
    for (int64_t column = 0; column < picture.size.width; ++column) {
      const double dx = static_cast<double>(column) + 0.5 - x * width;
      const double dy = static_cast<double>(row) + 0.5 - y * height;
      const double off = std::abs(std::hypot(dx, dy) - radius);
      if (off < thick) {
        put(picture, column, row, {255, 255, 255});
      } else if (off < 2 * thick) {
        put(picture, column, row, {16, 16, 16});
      }
    }
  }
}

}  // namespace mala::tasks
