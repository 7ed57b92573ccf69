// Maps of weights as colours, alone and over a picture.
#pragma once

#include <span>

#include "mala/data/image/image.h"

namespace mala::tasks {

struct Colour {
  uint8_t red = 0, green = 0, blue = 0;
};

// From -1 to 1: black at 0, warm and ever brighter above, blue below.
Colour heat_colour(double value);

// The map of (height, width) weights, a pixel for each, over its largest |weight|.
data::Image draw_heat(std::span<const float> weights, data::Size size);

// The picture, dim and grey, with the map over it: light is added to light, so black adds nothing.
// Every weight is one plain rectangle, since there is nothing between tokens.
data::Image lay_over(const data::Image& picture, const data::Image& heat);

// A bright ring with a dark edge around a place of the picture, from 0 to 1.
void draw_ring(data::Image& picture, double x, double y);

}  // namespace mala::tasks
