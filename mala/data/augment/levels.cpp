// Tables worked out as ImageOps and ImageEnhance do it.
#include "mala/data/augment/levels.h"

#include <algorithm>

namespace mala::data {
namespace {

template <typename LevelOf>
LevelTable make_table(const LevelOf& level_of) {
  LevelTable table;
  for (int i = 0; i < 256; ++i) {
    table[static_cast<size_t>(i)] = static_cast<uint8_t>(std::clamp<int64_t>(level_of(i), 0, 255));
  }
  return table;
}

using Histogram = std::array<int64_t, 256>;

std::array<Histogram, kChannels> count_levels(const Image& image) {
  std::array<Histogram, kChannels> counts{};
  for (size_t i = 0; i < image.pixels.size(); i += kChannels) {
    for (size_t c = 0; c < kChannels; ++c) ++counts[c][image.pixels[i + c]];
  }
  return counts;
}

int same(int level) { return level; }

LevelTable stretched(const Histogram& counts) {
  int low = 0, high = 255;
  while (low < 255 && counts[static_cast<size_t>(low)] == 0) ++low;
  while (high > 0 && counts[static_cast<size_t>(high)] == 0) --high;
  if (high <= low) return make_table(same);
  const double scale = 255.0 / (high - low), offset = -low * scale;
  return make_table([&](int i) { return static_cast<int64_t>(i * scale + offset); });
}

LevelTable equalized(const Histogram& counts) {
  int64_t all = 0, last = 0, kinds = 0;
  for (const int64_t count : counts) {
    if (count == 0) continue;
    all += count;
    last = count;
    ++kinds;
  }
  const int64_t step = (all - last) / 255;
  if (kinds <= 1 || step == 0) return make_table(same);
  int64_t sum = step / 2;
  return make_table([&](int i) {
    const int64_t level = sum / step;
    sum += counts[static_cast<size_t>(i)];
    return level;
  });
}

template <typename TableOf>
void apply_by_channel(Image& image, const TableOf& table_of) {
  const auto counts = count_levels(image);
  apply_tables(image, {table_of(counts[0]), table_of(counts[1]), table_of(counts[2])});
}

int mean_grey(const Image& image) {
  int64_t sum = 0;
  for (size_t i = 0; i < image.pixels.size(); i += kChannels) sum += grey_of(&image.pixels[i]);
  const auto pixels = static_cast<double>(image.pixels.size() / kChannels);
  return static_cast<int>(static_cast<double>(sum) / pixels + 0.5);
}

}  // namespace

void apply_tables(Image& image, const std::array<LevelTable, kChannels>& tables) {
  for (size_t i = 0; i < image.pixels.size(); i += kChannels) {
    for (size_t c = 0; c < kChannels; ++c) image.pixels[i + c] = tables[c][image.pixels[i + c]];
  }
}

void apply_table(Image& image, const LevelTable& table) {
  for (uint8_t& level : image.pixels) level = table[level];
}

void invert(Image& image) {
  for (uint8_t& level : image.pixels) level = static_cast<uint8_t>(255 - level);
}

void solarize(Image& image, int threshold) {
  apply_table(image, make_table([&](int i) { return i < threshold ? i : 255 - i; }));
}

void solarize_add(Image& image, int amount) {
  apply_table(image, make_table([&](int i) { return i < 128 ? i + amount : i; }));
}

void posterize(Image& image, int bits) {
  const int mask = ~((1 << (8 - bits)) - 1);
  apply_table(image, make_table([&](int i) { return i & mask; }));
}

void autocontrast(Image& image) { apply_by_channel(image, stretched); }

void equalize(Image& image) { apply_by_channel(image, equalized); }

void adjust_brightness(Image& image, double factor) {
  const auto share = static_cast<float>(factor);
  apply_table(image, make_table([&](int i) { return blend_levels(0, i, share); }));
}

void adjust_contrast(Image& image, double factor) {
  const auto share = static_cast<float>(factor);
  const int grey = mean_grey(image);
  apply_table(image, make_table([&](int i) { return blend_levels(grey, i, share); }));
}

}  // namespace mala::data
