// Cards go into metadata and come back; what is no card's value is refused.
#include "mala/models/card.h"

#include <gtest/gtest.h>

#include "tests/support/refusals.h"

namespace mala::models {
namespace {

const Source kSource{"test", "a.safetensors"};

TEST(Card, ComesBackAsItWas) {
  const Card card{.model = "mavit_s",
                  .mixers = "mala,mala,softmax,linear",
                  .image_size = 96,
                  .crop = 0.95,
                  .mean = {0.1, 0.2, 0.3},
                  .deviation = {1, 0.5, 0.25},
                  .labels = {"a \"quoted\" one", "größer", ""}};
  EXPECT_EQ(read_card(metadata_of(card), kSource), card);
  EXPECT_EQ(read_card(metadata_of(Card{}), kSource), Card{});
}

TEST(Card, HasDefaultsAndLeavesKeysOfOthersAlone) {
  EXPECT_EQ(read_card({{"format", "pt"}, {"model", "theirs"}}, kSource), Card{});
}

TEST(Card, RefusesWrongValuesByName) {
  const std::pair<const char*, const char*> wrong[] = {{"mala.image_size", "0"},
                                                       {"mala.image_size", "-5"},
                                                       {"mala.image_size", "1e300"},
                                                       {"mala.image_size", "22.5"},
                                                       {"mala.image_size", "[]"},
                                                       {"mala.image_size", ""},
                                                       {"mala.crop", "0"},
                                                       {"mala.crop", "1.5"},
                                                       {"mala.crop", "nan"},
                                                       {"mala.mean", "[1, 2]"},
                                                       {"mala.mean", "[1, 2, 3, 4]"},
                                                       {"mala.mean", "1"},
                                                       {"mala.std", "[1, 0, 1]"},
                                                       {"mala.std", "[1, 1e999, 1]"},
                                                       {"mala.labels", "[1, 2]"},
                                                       {"mala.labels", "{\"0\": 1}"},
                                                       {"mala.labels", "[\"a\""}};
  for (const auto& [key, value] : wrong) {
    const std::string message = test::refusal([&] { read_card({{key, value}}, kSource); });
    EXPECT_NE(message.find("a.safetensors"), std::string::npos) << message;
    EXPECT_NE(message.find(key), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace mala::models
