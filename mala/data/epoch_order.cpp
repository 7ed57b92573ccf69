// A shuffle by the seed, dealt to the ranks one by one.
#include "mala/data/epoch_order.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "mala/core/error.h"
#include "mala/data/random.h"

namespace mala::data {
namespace {

constexpr const char* kWhere = "image_batches";
constexpr int64_t kMost = 1'000'000;

void check_between(const char* name, int64_t value, int64_t low, int64_t high) {
  check(value >= low && value <= high, kWhere, name, " is ", value, ", needs ", low, " to ", high);
}

int64_t places_of(int64_t pictures, int64_t rank, int64_t world) {
  return pictures > rank ? (pictures - rank + world - 1) / world : 0;
}

void check_options(int64_t pictures, const BatchOptions& options) {
  check(pictures > 0, kWhere, "the source has no pictures");
  check_between("batch_size", options.batch_size, 1, kMost);
  check_between("world", options.world, 1, kMost);
  check_between("rank", options.rank, 0, options.world - 1);
  check_between("repeats", options.repeats, 1, kMost);
  check_between("epoch", options.epoch, 0, std::numeric_limits<uint32_t>::max());
}

}  // namespace

int64_t count_batches(int64_t pictures, const BatchOptions& options) {
  check_options(pictures, options);
  if (options.drop_last) return pictures / (options.batch_size * options.world);
  const int64_t places = places_of(pictures, options.rank, options.world);
  return (places + options.batch_size - 1) / options.batch_size;
}

EpochOrder::EpochOrder(int64_t pictures, const BatchOptions& options)
    : pictures_(pictures),
      batch_size_(options.batch_size),
      rank_(options.rank),
      world_(options.world),
      repeats_(options.repeats),
      batches_(count_batches(pictures, options)) {
  check(batches_ > 0 || !options.drop_last, kWhere, pictures, " pictures do not fill a batch of ",
        batch_size_, " on each of ", world_,
        " processes; make batches smaller or keep the last one (drop_last)");
  check_between("start_batch", options.start_batch, 0, batches_);
  if (!options.shuffle) return;
  shuffled_.resize(static_cast<size_t>(pictures));
  std::iota(shuffled_.begin(), shuffled_.end(), 0);
  Random random(options.seed, options.epoch, Use::kOrder);
  for (int64_t left = pictures; left > 1; --left) {
    std::swap(shuffled_[static_cast<size_t>(left - 1)],
              shuffled_[static_cast<size_t>(random.below(left))]);
  }
}

int64_t EpochOrder::place(int64_t batch, int64_t i) const {
  return rank_ + world_ * (batch * batch_size_ + i);
}

int64_t EpochOrder::count_in(int64_t batch) const {
  return std::min(batch_size_, places_of(pictures_, rank_, world_) - batch * batch_size_);
}

int64_t EpochOrder::picture_at(int64_t place) const {
  const int64_t number = place / repeats_;
  return shuffled_.empty() ? number : shuffled_[static_cast<size_t>(number)];
}

}  // namespace mala::data
