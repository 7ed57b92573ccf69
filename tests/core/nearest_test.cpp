// Mistyped words find the right one, and words that are none find nothing.
#include "mala/core/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mala {
namespace {

const std::vector<std::string> kKnown{"predict", "eval", "models", "convert", "bench"};

TEST(Nearest, CountsEachKindOfMistakeOnce) {
  EXPECT_EQ(typing_distance("weights", "weights"), 0u);
  EXPECT_EQ(typing_distance("weigths", "weights"), 1u);  // swapped
  EXPECT_EQ(typing_distance("weight", "weights"), 1u);   // left out
  EXPECT_EQ(typing_distance("weeights", "weights"), 1u);
  EXPECT_EQ(typing_distance("weighty", "weights"), 1u);  // changed
  EXPECT_EQ(typing_distance("wieghty", "weights"), 2u);
  EXPECT_EQ(typing_distance("", "abc"), 3u);
  EXPECT_EQ(typing_distance("abc", ""), 3u);
}

TEST(Nearest, FindsTheWordThatWasMeant) {
  EXPECT_EQ(nearest("pedict", kKnown), "predict");
  EXPECT_EQ(nearest("modles", kKnown), "models");
  EXPECT_EQ(nearest("evla", kKnown), "eval");
  EXPECT_EQ(did_you_mean("bnech", kKnown), "; did you mean bench?");
}

TEST(Nearest, IsSilentWhereNothingIsNear) {
  EXPECT_EQ(nearest("zzzzzz", kKnown), "");
  EXPECT_EQ(nearest("x", kKnown), "");
  EXPECT_EQ(did_you_mean("zzzzzz", kKnown), "");
  EXPECT_EQ(nearest(std::string(1'000'000, 'e'), kKnown), "");
  EXPECT_EQ(nearest("predict", {}), "");
}

}  // namespace
}  // namespace mala
