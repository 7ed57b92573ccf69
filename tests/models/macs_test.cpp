// The work of the published models, as counted from the released code.
#include "mala/models/vision/macs.h"

#include <gtest/gtest.h>

namespace mala::models {
namespace {

double billions(const MavitConfig& config) {
  return static_cast<double>(count_macs(config, {224, 224})) / 1e9;
}

TEST(Macs, AreThoseOfTheReleasedModels) {
  EXPECT_NEAR(billions(mavit_config("mavit_t")), 2.64, 0.005);
  EXPECT_NEAR(billions(mavit_config("mavit_s")), 4.90, 0.005);
  EXPECT_NEAR(billions(mavit_config("mavit_b")), 10.60, 0.005);
  EXPECT_NEAR(billions(mavit_config("mavit_l")), 17.26, 0.005);
}

TEST(Macs, AreFewerWhereAllStagesAreLinear) {
  EXPECT_NEAR(billions(with_mixers(mavit_config("mavit_t"), "mala")), 2.56, 0.005);
  EXPECT_NEAR(billions(with_mixers(mavit_config("mavit_l"), "linear")), 16.83, 0.005);
}

TEST(Macs, GrowWithThePictureAsTheMixerDoes) {
  const MavitConfig linear = mavit_config("mavit_n"), softmax = with_mixers(linear, "softmax");
  const auto growth = [](const MavitConfig& config) {
    return static_cast<double>(count_macs(config, {512, 512})) /
           static_cast<double>(count_macs(config, {256, 256}));
  };
  EXPECT_NEAR(growth(linear), 4, 0.01);
  EXPECT_GT(growth(softmax), 8);
}

}  // namespace
}  // namespace mala::models
