// Learning rates as the published recipe has them.
#include "mala/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/support/refusals.h"

namespace mala::train {
namespace {

TrainConfig published() {
  TrainConfig config;
  config.optimizer.lr = 5e-4;
  config.optimizer.lr_batch = 512;
  config.schedule = {.epochs = 300,
                     .warmup_epochs = 5,
                     .warmup_lr = 1e-6,
                     .min_lr = 1e-5,
                     .by_epoch = true,
                     .ema_decay = 0.99996,
                     .ema_batch = 512};
  return config;
}

// The numbers of timm's CosineLRScheduler for these settings.
TEST(Schedule, FollowsThePublishedOne) {
  const Schedule schedule(published(), 1251, 1024);
  EXPECT_EQ(schedule.steps(), 300 * 1251);
  EXPECT_DOUBLE_EQ(schedule.highest_lr(), 1e-3);
  EXPECT_DOUBLE_EQ(schedule.lr(0), 1e-6);
  EXPECT_DOUBLE_EQ(schedule.lr(1250), 1e-6);  // once an epoch
  EXPECT_DOUBLE_EQ(schedule.lr(1251), 1e-6 + (1e-3 - 1e-6) / 5);
  const double at_100 = 1e-5 + (1e-3 - 1e-5) * 0.5 * (1 + std::cos(std::numbers::pi / 3));
  EXPECT_DOUBLE_EQ(schedule.lr(100 * 1251 + 7), at_100);
  EXPECT_DOUBLE_EQ(schedule.ema_decay(0), std::pow(0.99996, 2));
}

TEST(Schedule, ByStepItNeverJumps) {
  TrainConfig config = published();
  config.schedule.by_epoch = false;
  config.schedule.epochs = 20;
  const Schedule schedule(config, 10, 512);
  for (int64_t step = 51; step < schedule.steps(); ++step) {
    EXPECT_LT(schedule.lr(step), schedule.lr(step - 1));
    EXPECT_LT(schedule.lr(step - 1) - schedule.lr(step), 5e-4 * 0.1);
  }
  EXPECT_LT(schedule.lr(schedule.steps() - 1), 2e-5);
}

TEST(Schedule, EndsEarlierWhenAsked) {
  TrainConfig config = published();
  config.schedule.max_steps = 7;
  EXPECT_EQ(Schedule(config, 1251, 1024).steps(), 7);
  config.schedule.max_steps = 1 << 30;
  EXPECT_EQ(Schedule(config, 10, 1024).steps(), 3000);
}

TEST(Schedule, AveragesAreShortAtFirst) {
  TrainConfig config = published();
  config.schedule.ema_warmup = true;
  config.schedule.ema_batch = 0;
  const Schedule schedule(config, 10, 512);
  EXPECT_DOUBLE_EQ(schedule.ema_decay(0), 2.0 / 11);
  EXPECT_DOUBLE_EQ(schedule.ema_decay(89), 91.0 / 100);
  EXPECT_DOUBLE_EQ(schedule.ema_decay(10'000'000), 0.99996);
}

TEST(Schedule, RefusesAnEpochWithoutAStep) {
  const std::string message = test::refusal([] { Schedule schedule({}, 0, 8); });
  EXPECT_TRUE(test::says(message, "fewer batches than optimizer.accumulate"));
}

}  // namespace
}  // namespace mala::train
