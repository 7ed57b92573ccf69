// Everything here follows from the options and the place alone: no thread, no order, no clock.
#include "mala/data/batch_maker.h"

#include <algorithm>

#include "mala/core/error.h"
#include "mala/data/augment/mix.h"

namespace mala::data {
namespace {

// So many broken files in a row mean that something else is wrong, such as a folder gone.
constexpr int kMostReplacements = 100;

// Moves the filled places together, over those that stayed empty.
void close_gaps(OpenBatch& open) {
  ImageBatch& batch = open.batch;
  const int64_t numbers = batch.size * batch.size * kChannels;
  int64_t kept = 0;
  for (int64_t i = 0; i < batch.count; ++i) {
    if (!open.is_filled[static_cast<size_t>(i)]) continue;
    if (kept < i) {
      std::copy_n(batch.pixels.begin() + i * numbers, numbers,
                  batch.pixels.begin() + kept * numbers);
      batch.labels[static_cast<size_t>(kept)] = batch.labels[static_cast<size_t>(i)];
      batch.indices[static_cast<size_t>(kept)] = batch.indices[static_cast<size_t>(i)];
    }
    ++kept;
  }
  batch.count = kept;
  batch.pixels.resize(static_cast<size_t>(kept * numbers));
  batch.labels.resize(static_cast<size_t>(kept));
  batch.indices.resize(static_cast<size_t>(kept));
}

}  // namespace

BatchMaker::BatchMaker(const ImageSource& source, const BatchOptions& options)
    : source_(source), options_(options), order_(source.size(), options), pictures_(options) {}

OpenBatch BatchMaker::open(int64_t number) const {
  OpenBatch open{.number = number, .batch = {}, .skipped = {}, .is_filled = {}};
  ImageBatch& batch = open.batch;
  batch.count = order_.count_in(number);
  batch.size = options_.image_size;
  const auto count = static_cast<size_t>(batch.count);
  batch.pixels.resize(count * static_cast<size_t>(batch.size * batch.size * kChannels));
  batch.labels.resize(count);
  batch.indices.resize(count);
  open.skipped.resize(count);
  open.is_filled.resize(count);
  return open;
}

bool BatchMaker::try_fill(OpenBatch& open, int64_t i, int64_t index, int64_t place) const {
  const int64_t numbers = options_.image_size * options_.image_size * kChannels;
  const std::span<float> out(open.batch.pixels.data() + i * numbers, static_cast<size_t>(numbers));
  Random random(options_.seed, options_.epoch, Use::kPicture, place);
  try {
    pictures_.make(source_, index, random, out);
  } catch (const Error& error) {
    open.skipped[static_cast<size_t>(i)].push_back({source_.name(index), error.what()});
    return false;
  }
  open.batch.labels[static_cast<size_t>(i)] = source_.label(index);
  open.batch.indices[static_cast<size_t>(i)] = index;
  open.is_filled[static_cast<size_t>(i)] = true;
  return true;
}

void BatchMaker::fill(OpenBatch& open, int64_t i) const {
  const int64_t place = order_.place(open.number, i);
  if (try_fill(open, i, order_.picture_at(place), place) || !options_.replace_broken) return;
  Random replacement(options_.seed, options_.epoch, Use::kReplacement, place);
  for (int attempt = 0; attempt < kMostReplacements; ++attempt) {
    if (try_fill(open, i, replacement.below(source_.size()), place)) return;
  }
  const BadFile& last = open.skipped[static_cast<size_t>(i)].back();
  check(false, "image_batches", kMostReplacements + 1,
        " pictures in a row could not be read, so something else must be wrong; the last was ",
        last.name, ": ", last.reason);
}

void BatchMaker::mix(ImageBatch& batch, int64_t number) const {
  batch.other_labels = batch.labels;
  batch.share.assign(batch.labels.size(), 1.0f);
  if (!options_.augmentation) return;
  const int64_t place = number * options_.world + options_.rank;
  Random random(options_.seed, options_.epoch, Use::kMix, place);
  const Mix drawn = draw_mix(*options_.augmentation, options_.image_size, random);
  if (drawn.share == 1.0) return;
  mix_batch(drawn, batch.count, batch.size, batch.pixels);
  std::ranges::reverse(batch.other_labels);
  std::ranges::fill(batch.share, static_cast<float>(drawn.share));
}

ImageBatch BatchMaker::finish(OpenBatch open) const {
  for (std::vector<BadFile>& skipped : open.skipped) {
    std::ranges::move(skipped, std::back_inserter(open.batch.skipped));
  }
  if (std::ranges::count(open.is_filled, char{true}) < open.batch.count) close_gaps(open);
  mix(open.batch, open.number);
  return std::move(open.batch);
}

}  // namespace mala::data
