// Changes of levels that look at no neighbours: a table for each channel. They equal Pillow's.
#pragma once

#include <array>

#include "mala/data/image/image.h"

namespace mala::data {

using LevelTable = std::array<uint8_t, 256>;

void apply_tables(Image& image, const std::array<LevelTable, kChannels>& tables);
void apply_table(Image& image, const LevelTable& table);

void invert(Image& image);
void solarize(Image& image, int threshold);           // levels from it on are inverted
void solarize_add(Image& image, int amount);          // added to levels below 128
void posterize(Image& image, int bits);               // how many upper bits stay, 0 to 8
void autocontrast(Image& image);                      // each channel stretched to 0 and 255
void equalize(Image& image);                          // each channel's levels made equally frequent
void adjust_brightness(Image& image, double factor);  // 0: black, 1: as it is
void adjust_contrast(Image& image, double factor);    // 0: grey of the mean, 1: as it is

// Pillow's blend: from + factor * (to - from), cut off at 0 and 255 and rounded down.
constexpr uint8_t blend_levels(int from, int to, float factor) {
  const float level = static_cast<float>(from) + factor * static_cast<float>(to - from);
  return static_cast<uint8_t>(level <= 0.0f ? 0.0f : level >= 255.0f ? 255.0f : level);
}

// How bright a pixel is: 0.299 red + 0.587 green + 0.114 blue, rounded.
constexpr int grey_of(const uint8_t* pixel) {
  return (pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16;
}

}  // namespace mala::data
