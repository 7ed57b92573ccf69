// Learning rate and averaging over the steps of a run.
#pragma once

#include "mala/train/config.h"

namespace mala::train {

class Schedule {
 public:
  // `examples` of one step, of all processes together.
  Schedule(const TrainConfig& config, int64_t steps_per_epoch, int64_t examples);

  int64_t steps() const { return steps_; }  // of the whole run
  int64_t steps_per_epoch() const { return steps_per_epoch_; }

  // Of the step with this number, from 0. A straight rise, then half a cosine over all epochs.
  double lr(int64_t step) const;
  double highest_lr() const { return highest_; }
  // Of the averaged weights after this step.
  double ema_decay(int64_t step) const;

 private:
  ScheduleConfig config_;
  int64_t steps_per_epoch_, steps_;
  double highest_, ema_decay_;
};

}  // namespace mala::train
