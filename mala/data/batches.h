// One epoch of labelled pictures as batches of numbers, made by worker threads ahead of the reader.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mala/data/augment/augmentation.h"
#include "mala/data/dataset/image_source.h"
#include "mala/data/image/prepare.h"
#include "mala/data/image/resize.h"
#include "mala/data/uninitialised.h"

namespace mala::data {

struct BatchOptions {
  int64_t batch_size = 128;  // of this process
  int64_t image_size = 224;
  // Everything random follows from seed, epoch and the place within the epoch, so the same three
  // give the same batches whatever the number of workers.
  uint64_t seed = 0;
  int64_t epoch = 0;
  bool shuffle = true;
  bool drop_last = true;        // leave out what does not fill a batch on every rank
  int64_t rank = 0, world = 1;  // this process takes places rank, rank + world, ... of the epoch
  int64_t start_batch = 0;      // the first to give: where a resumed epoch goes on
  int64_t repeats = 1;          // times that a picture comes in an epoch, each augmented anew
  int64_t workers = 0;          // threads; 0: one a core
  int64_t ahead = 3;  // batches in the making or waiting, or more where workers would idle
  // Absent: the view of evaluation, the short side to `short_side` and then the middle.
  std::optional<Augmentation> augmentation{};
  int64_t short_side = 0;            // 0: image_size
  Filter filter = Filter::kBicubic;  // of evaluation
  Normalization normalization{};
  // A broken file's place is taken by another picture, drawn from the seed. Without this it stays
  // empty and its batch is smaller, which evaluation wants.
  bool replace_broken = true;
};

struct BadFile {
  std::string name, reason;
};

struct ImageBatch {
  int64_t count = 0, size = 0;
  UninitialisedVector<float> pixels;  // (count, size, size, 3), normalised
  std::vector<int64_t> labels;        // (count)
  std::vector<int64_t> indices;       // (count), within the source
  std::vector<int64_t> other_labels;  // (count): of the pictures mixed in; labels, where none is
  std::vector<float> share;           // (count): of `labels` in the mix; 1 where none is
  std::vector<BadFile> skipped;       // in the order of their places
};

// The places of the epoch that this process takes, in batches.
int64_t count_batches(int64_t pictures, const BatchOptions& options);

class ImageBatches {
 public:
  // `source` stays with the caller and outlives this. Throws mala::Error when an option is out of
  // its range or an epoch would have no batch.
  ImageBatches(const ImageSource& source, const BatchOptions& options);
  ~ImageBatches();  // at any time; work under way ends first
  ImageBatches(const ImageBatches&) = delete;
  ImageBatches& operator=(const ImageBatches&) = delete;

  // Batches of the whole epoch, those before start_batch included.
  int64_t count() const;

  // Nothing when the epoch is over. What goes wrong in a worker is thrown here.
  std::optional<ImageBatch> next();

 private:
  class Workshop;
  std::unique_ptr<Workshop> workshop_;
};

}  // namespace mala::data
