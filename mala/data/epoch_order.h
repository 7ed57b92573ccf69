// Which picture stands at which place of an epoch, and which places are whose.
#pragma once

#include <vector>

#include "mala/data/batches.h"

namespace mala::data {

class EpochOrder {
 public:
  // Throws mala::Error when an option is out of its range.
  EpochOrder(int64_t pictures, const BatchOptions& options);

  int64_t batches() const { return batches_; }

  // The place of number i in a batch of this process, and how many numbers the batch has.
  int64_t place(int64_t batch, int64_t i) const;
  int64_t count_in(int64_t batch) const;

  // The picture at a place; with repeats, neighbouring places have the same.
  int64_t picture_at(int64_t place) const;

 private:
  int64_t pictures_, batch_size_, rank_, world_, repeats_, batches_;
  std::vector<int64_t> shuffled_;  // empty where the order is the source's
};

}  // namespace mala::data
