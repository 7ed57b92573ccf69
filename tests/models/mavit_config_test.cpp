// Models by name, and their mixers by one word or four.
#include <gtest/gtest.h>

#include "mala/core/error.h"
#include "mala/models/vision/config.h"

namespace mala::models {
namespace {

std::string mixers_of(const MavitConfig& config) {
  std::string words;
  for (const MavitStage& stage : config.stages) {
    words += std::string(words.empty() ? "" : " ") + std::string(nn::word_for(stage.mixer));
  }
  return words;
}

TEST(MavitConfig, ReleasedModelsAreHybrids) {
  for (const char* name : {"mavit_t", "mavit_s", "mavit_b", "mavit_l"}) {
    EXPECT_EQ(mixers_of(mavit_config(name)), "mala mala softmax softmax") << name;
  }
  EXPECT_EQ(mixers_of(mavit_config("mavit_n")), "mala mala mala mala");
}

TEST(MavitConfig, TakesOneMixerOrOneForEachStage) {
  const MavitConfig& tiny = mavit_config("mavit_t");
  EXPECT_EQ(mixers_of(with_mixers(tiny, "linear")), "linear linear linear linear");
  EXPECT_EQ(mixers_of(with_mixers(tiny, "inline,mala,linear,softmax")),
            "inline mala linear softmax");
}

TEST(MavitConfig, RefusesOtherNamesAndCounts) {
  const MavitConfig& tiny = mavit_config("mavit_t");
  EXPECT_THROW(with_mixers(tiny, "mala,softmax"), Error);
  EXPECT_THROW(with_mixers(tiny, "mala,mala,softmax,"), Error);
  EXPECT_THROW(with_mixers(tiny, ""), Error);
  try {
    mavit_config("mavit_x");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "[mavit_config] no model 'mavit_x'; there are mavit_n, mavit_t, mavit_s, "
                 "mavit_b, mavit_l");
  }
}

}  // namespace
}  // namespace mala::models
