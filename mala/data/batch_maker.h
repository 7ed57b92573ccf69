// Fills batches place by place, in any order of places; private to this folder and its tests.
#pragma once

#include "mala/data/augment/picture.h"
#include "mala/data/batches.h"
#include "mala/data/epoch_order.h"

namespace mala::data {

// A batch with its places still open. Different places may be filled by different threads at once.
struct OpenBatch {
  int64_t number = 0;
  ImageBatch batch;
  std::vector<std::vector<BadFile>> skipped;  // by place
  std::vector<char> is_filled;
};

class BatchMaker {
 public:
  BatchMaker(const ImageSource& source, const BatchOptions& options);

  const EpochOrder& order() const { return order_; }

  OpenBatch open(int64_t number) const;
  void fill(OpenBatch& open, int64_t i) const;  // place i of the batch, once
  ImageBatch finish(OpenBatch open) const;      // when all are filled: closes gaps and mixes

 private:
  bool try_fill(OpenBatch& open, int64_t i, int64_t index, int64_t place) const;
  void mix(ImageBatch& batch, int64_t number) const;

  const ImageSource& source_;
  BatchOptions options_;
  EpochOrder order_;
  PictureMaker pictures_;
};

}  // namespace mala::data
