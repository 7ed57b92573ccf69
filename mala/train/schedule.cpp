// The schedule of the published recipe: the cosine runs over all epochs, the warm-up's included.
#include "mala/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "mala/core/error.h"

namespace mala::train {
namespace {

double ratio(int64_t examples, int64_t batch) {
  return batch > 0 ? static_cast<double>(examples) / static_cast<double>(batch) : 1;
}

}  // namespace

Schedule::Schedule(const TrainConfig& config, int64_t steps_per_epoch, int64_t examples)
    : config_(config.schedule),
      steps_per_epoch_(steps_per_epoch),
      highest_(config.optimizer.lr * ratio(examples, config.optimizer.lr_batch)),
      ema_decay_(std::pow(config_.ema_decay, ratio(examples, config_.ema_batch))) {
  check(steps_per_epoch > 0, "train", "an epoch has fewer batches than optimizer.accumulate (",
        config.optimizer.accumulate, ") asks for one step; give more data or smaller batches");
  steps_ = config_.epochs * steps_per_epoch;
  if (config_.max_steps > 0) steps_ = std::min(steps_, config_.max_steps);
}

double Schedule::lr(int64_t step) const {
  const double exact = static_cast<double>(step) / static_cast<double>(steps_per_epoch_);
  const double epoch = config_.by_epoch ? std::floor(exact) : exact;
  if (epoch < config_.warmup_epochs) {
    return config_.warmup_lr + (highest_ - config_.warmup_lr) * epoch / config_.warmup_epochs;
  }
  const double share = std::min(1.0, epoch / static_cast<double>(config_.epochs));
  const double lowest = std::min(config_.min_lr, highest_);
  return lowest + (highest_ - lowest) * 0.5 * (1 + std::cos(std::numbers::pi * share));
}

double Schedule::ema_decay(int64_t step) const {
  if (config_.ema_decay == 0) return 0;
  const double done = static_cast<double>(step) + 1;
  return config_.ema_warmup ? std::min(ema_decay_, (1 + done) / (10 + done)) : ema_decay_;
}

}  // namespace mala::train
