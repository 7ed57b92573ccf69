// Cells from the same maker of batches that training has.
#include "mala/data/augment/sheet.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mala/core/error.h"
#include "mala/data/batch_maker.h"
#include "mala/data/dataset/renumbered.h"

namespace mala::data {
namespace {

constexpr const char* kWhere = "augmentation_sheet";
constexpr int64_t kGap = 4;  // white pixels between cells

// Some pictures of a source, evenly spread: neighbours are often of one class.
Renumbered spread(const ImageSource& source, int64_t count) {
  const int64_t size = source.size();
  return {source, count, [=](int64_t i) { return i * size / count; }};
}

void check_options(const ImageSource& source, const SheetOptions& options) {
  check(source.size() > 0, kWhere, "the source has no pictures");
  for (const auto& [name, value] :
       {std::pair("rows", options.rows), std::pair("columns", options.columns)}) {
    check(value >= 1 && value <= 200, kWhere, name, " is ", value, ", needs 1 to 200");
  }
  check(options.image_size >= 1 && options.image_size <= 1024, kWhere, "image_size is ",
        options.image_size, ", needs 1 to 1024");
}

// The first `count` pictures of the source, drawn for the epoch; without an augmentation as
// evaluation sees them.
ImageBatch draw_batch(const ImageSource& source, const SheetOptions& options,
                      const Augmentation* augmentation, int64_t epoch) {
  BatchOptions batches{.batch_size = source.size(), .image_size = options.image_size};
  batches.seed = options.seed;
  batches.epoch = epoch;
  batches.shuffle = false;
  if (augmentation) batches.augmentation = *augmentation;
  const BatchMaker maker(source, batches);
  OpenBatch open = maker.open(0);
  for (int64_t i = 0; i < source.size(); ++i) maker.fill(open, i);
  return maker.finish(std::move(open));
}

// Back from normalised numbers to levels; noise may lie beyond them.
Image picture_in(const ImageBatch& batch, int64_t i) {
  const Normalization normalization;
  Image image(Size{batch.size, batch.size});
  const float* const numbers = batch.pixels.data() + i * std::ssize(image.pixels);
  for (size_t p = 0; p < image.pixels.size(); ++p) {
    const size_t c = p % kChannels;
    const float level = numbers[p] * normalization.deviation[c] + normalization.mean[c];
    image.pixels[p] = static_cast<uint8_t>(std::clamp(std::round(255.0f * level), 0.0f, 255.0f));
  }
  return image;
}

class Canvas {
 public:
  Canvas(int64_t rows, int64_t columns, int64_t side)
      : step_(side + kGap), image_(Size{columns * step_ + kGap, rows * step_ + kGap}) {
    std::ranges::fill(image_.pixels, uint8_t{255});
  }

  void put(int64_t row, int64_t column, const Image& cell) {
    for (int64_t y = 0; y < cell.size.height; ++y) {
      uint8_t* const to = image_.row(kGap + row * step_ + y) + (kGap + column * step_) * kChannels;
      std::memcpy(to, cell.row(y), static_cast<size_t>(cell.size.width * kChannels));
    }
  }

  Image finish() && { return std::move(image_); }

 private:
  int64_t step_;
  Image image_;
};

struct Named {
  std::string name;
  Augmentation augmentation;
};

// Nothing but what is then switched on.
Augmentation nothing(const Augmentation& from) {
  Augmentation augmentation = from;
  augmentation.crop = "centre";
  augmentation.rand_augment.clear();
  augmentation.flip = augmentation.colour_jitter = augmentation.erase = 0.0;
  augmentation.mixup = augmentation.cutmix = 0.0;
  augmentation.mix_probability = 1.0;
  return augmentation;
}

double or_published(double value, double published) { return value > 0.0 ? value : published; }

std::vector<Named> each_alone(const Augmentation& asked) {
  std::vector<Named> all(7, Named{"", nothing(asked)});
  all[0].name = "resized crop";
  all[0].augmentation.crop = "resized";
  all[1].name = "padded crop";
  all[1].augmentation.crop = "padded";
  all[2].name = "flip";
  all[2].augmentation.flip = 1.0;
  all[3].name = "colour jitter";
  all[3].augmentation.colour_jitter = or_published(asked.colour_jitter, 0.4);
  all[4].name = "erase";
  all[4].augmentation.erase = 1.0;
  all[5].name = "mixup";
  all[5].augmentation.mixup = or_published(asked.mixup, 0.8);
  all[6].name = "cutmix";
  all[6].augmentation.cutmix = or_published(asked.cutmix, 1.0);
  return all;
}

}  // namespace

Sheet draw_sheet(const ImageSource& source, const SheetOptions& options) {
  check_options(source, options);
  const Renumbered pictures = spread(source, options.rows);
  Canvas canvas(options.rows, options.columns, options.image_size);
  for (int64_t column = 0; column < options.columns; ++column) {
    const bool is_plain = column == 0;
    const ImageBatch batch =
        draw_batch(pictures, options, is_plain ? nullptr : &options.augmentation, column);
    for (int64_t row = 0; row < batch.count; ++row) canvas.put(row, column, picture_in(batch, row));
  }
  Sheet sheet{std::move(canvas).finish(), {}};
  for (int64_t row = 0; row < options.rows; ++row) sheet.rows.push_back(pictures.name(row));
  return sheet;
}

Sheet draw_each(const ImageSource& source, const SheetOptions& options) {
  check_options(source, options);
  check_augmentation(options.augmentation);
  const Renumbered pictures = spread(source, options.columns);
  const std::string& asked = options.augmentation.rand_augment;
  const RandAugment strengths = parse_rand_augment(asked.empty() ? "m9-mstd0.5-inc1" : asked);
  const std::vector<Named> alone = each_alone(options.augmentation);
  const auto operations = rand_augment_operations();
  const int64_t rows = 1 + std::ssize(alone) + std::ssize(operations);
  Canvas canvas(rows, options.columns, options.image_size);
  Sheet sheet{{}, {"as they are"}};
  const ImageBatch plain = draw_batch(pictures, options, nullptr, 0);
  for (int64_t i = 0; i < plain.count; ++i) canvas.put(0, i, picture_in(plain, i));
  for (const auto& [name, augmentation] : alone) {
    const int64_t row = std::ssize(sheet.rows);
    const ImageBatch batch = draw_batch(pictures, options, &augmentation, row);
    for (int64_t i = 0; i < batch.count; ++i) canvas.put(row, i, picture_in(batch, i));
    sheet.rows.push_back(name);
  }
  for (const std::string_view name : operations) {
    const int64_t row = std::ssize(sheet.rows);
    for (int64_t i = 0; i < plain.count; ++i) {
      Image cell = picture_in(plain, i);
      Random random(options.seed, row, Use::kPicture, i);
      apply_operation(name, strengths.magnitude, strengths, {}, random, cell);
      canvas.put(row, i, cell);
    }
    sheet.rows.push_back(str("RandAugment: ", name));
  }
  sheet.image = std::move(canvas).finish();
  return sheet;
}

}  // namespace mala::data
