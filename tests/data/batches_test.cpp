// Batches: the same whatever the workers, whole over ranks, resumable, and robust.
#include "mala/data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "tests/data/support/made_pictures.h"
#include "tests/support/refusals.h"

namespace mala::data {
namespace {

Augmentation everything() {
  return {.rand_augment = "m9-mstd0.5-inc1",
          .colour_jitter = 0.4,
          .erase = 0.25,
          .mixup = 0.8,
          .cutmix = 1.0};
}

BatchOptions small_options() {
  BatchOptions options{.batch_size = 8, .image_size = 16, .seed = 5, .workers = 2};
  options.augmentation = everything();
  return options;
}

BatchOptions evaluation() {
  BatchOptions options{.batch_size = 4, .image_size = 8, .shuffle = false, .drop_last = false};
  options.workers = 2;
  options.replace_broken = false;
  return options;
}

std::vector<ImageBatch> all_batches(const ImageSource& source, const BatchOptions& options) {
  ImageBatches batches(source, options);
  std::vector<ImageBatch> all;
  while (auto batch = batches.next()) all.push_back(std::move(*batch));
  EXPECT_EQ(std::ssize(all), batches.count() - options.start_batch);
  EXPECT_FALSE(batches.next());
  return all;
}

void expect_same(const ImageBatch& a, const ImageBatch& b) {
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.indices, b.indices);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.other_labels, b.other_labels);
  EXPECT_EQ(a.share, b.share);
  EXPECT_TRUE(a.pixels == b.pixels);
  ASSERT_EQ(a.skipped.size(), b.skipped.size());
  for (size_t i = 0; i < a.skipped.size(); ++i) EXPECT_EQ(a.skipped[i].name, b.skipped[i].name);
}

TEST(ImageBatches, AreTheSameWhateverTheWorkers) {
  const test::MadePictures source(50, {24, 20}, {3, 17});
  BatchOptions options = small_options();
  options.workers = 1;
  const std::vector<ImageBatch> one = all_batches(source, options);
  ASSERT_EQ(one.size(), 6u);
  for (const int64_t workers : {2, 5, 0}) {
    options.workers = workers;
    options.ahead = workers == 5 ? 1 : 3;
    const std::vector<ImageBatch> other = all_batches(source, options);
    ASSERT_EQ(other.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i) expect_same(one[i], other[i]);
  }
}

TEST(ImageBatches, DifferBySeedAndEpoch) {
  const test::MadePictures source(50, {24, 20});
  BatchOptions options = small_options();
  const ImageBatch first = all_batches(source, options)[0];
  options.seed = 6;
  const ImageBatch other_seed = all_batches(source, options)[0];
  options.seed = 5;
  options.epoch = 1;
  const ImageBatch other_epoch = all_batches(source, options)[0];
  EXPECT_NE(first.indices, other_seed.indices);
  EXPECT_NE(first.indices, other_epoch.indices);
  EXPECT_FALSE(first.pixels == other_epoch.pixels);
}

TEST(ImageBatches, GoOnInTheMiddleOfAnEpoch) {
  const test::MadePictures source(50, {24, 20}, {8});
  BatchOptions options = small_options();
  const std::vector<ImageBatch> whole = all_batches(source, options);
  for (const int64_t start : {1, 4, 6}) {
    options.start_batch = start;
    const std::vector<ImageBatch> rest = all_batches(source, options);
    for (size_t i = 0; i < rest.size(); ++i) {
      expect_same(rest[i], whole[i + static_cast<size_t>(start)]);
    }
  }
}

std::map<int64_t, int> times_seen(const std::vector<ImageBatch>& batches) {
  std::map<int64_t, int> times;
  for (const ImageBatch& batch : batches) {
    for (const int64_t index : batch.indices) ++times[index];
  }
  return times;
}

TEST(ImageBatches, RanksShareTheSetExactly) {
  const test::MadePictures source(23, {10, 10});
  for (const bool shuffle : {false, true}) {
    BatchOptions options = evaluation();
    options.shuffle = shuffle;
    std::vector<ImageBatch> all;
    for (options.rank = 0, options.world = 3; options.rank < 3; ++options.rank) {
      std::ranges::move(all_batches(source, options), std::back_inserter(all));
    }
    const auto times = times_seen(all);
    EXPECT_EQ(times.size(), 23u);
    for (const auto& [index, count] : times) EXPECT_EQ(count, 1) << index;
  }
}

// Two processes make the pictures of one with twice the batch, in turn.
TEST(ImageBatches, RanksTogetherMakeTheLargerBatch) {
  const test::MadePictures source(40, {24, 20});
  BatchOptions options = small_options();
  options.augmentation->mixup = options.augmentation->cutmix = 0.0;
  options.batch_size = 16;
  const ImageBatch large = all_batches(source, options)[1];
  options.batch_size = 8;
  options.world = 2;
  for (options.rank = 0; options.rank < 2; ++options.rank) {
    const ImageBatch half = all_batches(source, options)[1];
    const auto numbers = half.pixels.size() / 8;
    for (size_t i = 0; i < 8; ++i) {
      const size_t place = 2 * i + static_cast<size_t>(options.rank);
      EXPECT_EQ(half.indices[i], large.indices[place]);
      EXPECT_TRUE(std::equal(half.pixels.data() + i * numbers,
                             half.pixels.data() + (i + 1) * numbers,
                             large.pixels.data() + place * numbers));
    }
  }
}

TEST(ImageBatches, RepeatsShowFewerPicturesMoreOften) {
  const test::MadePictures source(30, {24, 20});
  BatchOptions options = small_options();
  options.batch_size = 6;
  options.repeats = 3;
  options.augmentation->mixup = options.augmentation->cutmix = 0.0;
  const std::vector<ImageBatch> batches = all_batches(source, options);
  const auto times = times_seen(batches);
  EXPECT_EQ(times.size(), 10u);
  for (const auto& [index, count] : times) EXPECT_EQ(count, 3) << index;
  const ImageBatch& first = batches[0];
  EXPECT_EQ(first.indices[0], first.indices[2]);
  const auto numbers = first.pixels.size() / 6;
  EXPECT_FALSE(std::equal(first.pixels.data(), first.pixels.data() + numbers,
                          first.pixels.data() + numbers));  // augmented anew
}

TEST(ImageBatches, EvaluationShowsTheMiddleInOrder) {
  const test::MadePictures source(6, {12, 9});
  BatchOptions options = evaluation();
  options.short_side = 9;
  const std::vector<ImageBatch> batches = all_batches(source, options);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[1].count, 2);
  EXPECT_EQ(batches[1].indices, (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(batches[1].labels, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(batches[1].other_labels, batches[1].labels);
  EXPECT_EQ(batches[1].share, (std::vector<float>{1.0f, 1.0f}));
  std::vector<float> wanted(8 * 8 * 3);
  normalize(centre_crop(test::made_picture(5, {12, 9}), {8, 8}), {}, PixelOrder::kPixels, wanted);
  EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), batches[1].pixels.begin() + 8 * 8 * 3));
}

TEST(ImageBatches, BrokenFilesAreNamedAndReplaced) {
  const test::MadePictures source(32, {16, 16}, {0, 9, 30});
  BatchOptions options = small_options();
  std::vector<std::string> names;
  for (const ImageBatch& batch : all_batches(source, options)) {
    EXPECT_EQ(batch.count, 8);
    for (const int64_t index : batch.indices) EXPECT_NE(index % 32 * (index - 9) * (index - 30), 0);
    for (const BadFile& file : batch.skipped) {
      names.push_back(file.name);
      EXPECT_TRUE(test::says(file.reason, file.name + ": is broken"));
    }
  }
  for (const char* name : {"picture 0", "picture 9", "picture 30"}) {
    EXPECT_NE(std::ranges::find(names, name), names.end()) << name;
  }
}

TEST(ImageBatches, BrokenFilesLeaveEvaluationSmaller) {
  const test::MadePictures source(9, {8, 8}, {1, 4, 5, 6, 7});
  const std::vector<ImageBatch> batches = all_batches(source, evaluation());
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_EQ(batches[0].indices, (std::vector<int64_t>{0, 2, 3}));
  EXPECT_EQ(batches[0].labels, (std::vector<int64_t>{0, 2, 0}));
  EXPECT_EQ(batches[0].pixels.size(), 3u * 8 * 8 * 3);
  EXPECT_EQ(batches[0].share.size(), 3u);
  EXPECT_EQ(batches[1].count, 0);
  EXPECT_EQ(batches[1].skipped.size(), 4u);
  EXPECT_EQ(batches[2].indices, (std::vector<int64_t>{8}));
  std::vector<float> wanted(8 * 8 * 3);
  normalize(test::made_picture(3, {8, 8}), {}, PixelOrder::kPixels, wanted);
  EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), batches[0].pixels.begin() + 2 * 8 * 8 * 3));
}

TEST(ImageBatches, NothingButBrokenFilesIsAnError) {
  std::set<int64_t> all;
  for (int64_t i = 0; i < 16; ++i) all.insert(i);
  const test::MadePictures source(16, {8, 8}, all);
  ImageBatches batches(source, small_options());
  const std::string words = test::refusal([&] { batches.next(); });
  EXPECT_TRUE(test::says(words, "101 pictures in a row could not be read"));
  EXPECT_TRUE(test::says(words, "is broken"));
}

// Whatever is no fault of a file ends the epoch.
class FailingPictures final : public ImageSource {
 public:
  int64_t size() const override { return 100; }
  int64_t label(int64_t) const override { return 0; }
  std::string name(int64_t) const override { return "x"; }
  const std::vector<std::string>& classes() const override { return classes_; }
  Image read(int64_t index, const ChooseRegion&) const override {
    if (index == 40) throw std::logic_error("a wire came off");
    return Image(Size{8, 8});
  }

 private:
  std::vector<std::string> classes_{"a"};
};

TEST(ImageBatches, WhatFailsInAWorkerReachesTheReader) {
  const FailingPictures source;
  BatchOptions options = evaluation();
  options.workers = 3;
  ImageBatches batches(source, options);
  const auto read_all = [&] {
    while (batches.next()) {
    }
  };
  EXPECT_THROW(read_all(), std::logic_error);
  EXPECT_THROW(batches.next(), std::logic_error);
}

TEST(ImageBatches, MayStopAtAnyTime) {
  const test::MadePictures source(4000, {16, 16});
  BatchOptions options = small_options();
  options.workers = 4;
  for (int taken = 0; taken < 4; ++taken) {
    source.reads = 0;
    {
      ImageBatches batches(source, options);
      for (int i = 0; i < taken; ++i) EXPECT_EQ(batches.next()->count, 8);
    }
    // Batches that were taken, those ahead, and no more.
    EXPECT_LE(source.reads, (taken + 3) * 8);
  }
}

TEST(ImageBatches, WorkAheadIsBounded) {
  const test::MadePictures source(4000, {8, 8});
  BatchOptions options = small_options();
  options.ahead = 2;
  ImageBatches batches(source, options);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LE(source.reads, 2 * 8);
  batches.next();
}

TEST(ImageBatches, OptionsAreChecked) {
  const test::MadePictures source(20, {8, 8}), none(0, {8, 8});
  const auto words = [&](auto change) {
    BatchOptions options = small_options();
    change(options);
    return test::refusal([&] { ImageBatches(source, options); });
  };
  EXPECT_TRUE(test::says(words([](auto& o) { o.batch_size = 0; }), "batch_size is 0"));
  EXPECT_TRUE(test::says(words([](auto& o) { o.batch_size = 21; }), "do not fill a batch of 21"));
  EXPECT_TRUE(test::says(words([](auto& o) { o.world = 3; }), "on each of 3 processes"));
  EXPECT_TRUE(test::says(words([](auto& o) { o.rank = 1; }), "rank is 1, needs 0 to 0"));
  EXPECT_TRUE(test::says(words([](auto& o) { o.start_batch = 3; }), "start_batch is 3"));
  EXPECT_TRUE(test::says(words([](auto& o) { o.image_size = 0; }), "image_size is 0"));
  EXPECT_TRUE(test::says(words([](auto& o) { o.short_side = 4; }), "short_side is 4"));
  EXPECT_TRUE(test::says(words([](auto& o) { o.workers = -1; }), "workers is -1"));
  EXPECT_TRUE(test::says(words([](auto& o) { o.ahead = 0; }), "ahead is 0"));
  EXPECT_TRUE(test::says(words([](auto& o) { o.repeats = 0; }), "repeats is 0"));
  EXPECT_TRUE(test::says(words([](auto& o) { o.epoch = -1; }), "epoch is -1"));
  EXPECT_TRUE(
      test::says(words([](auto& o) { o.normalization.deviation[1] = 0; }), "a deviation is 0"));
  EXPECT_TRUE(test::says(words([](auto& o) { o.augmentation->flip = 2; }), "flip is 2"));
  EXPECT_TRUE(test::says(test::refusal([&] { ImageBatches(none, small_options()); }),
                         "the source has no pictures"));
}

}  // namespace
}  // namespace mala::data
