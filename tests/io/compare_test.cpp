// A mismatch names the first arrays of every kind.
#include "mala/io/compare.h"

#include <gtest/gtest.h>

namespace mala::io {
namespace {

Weights file_with(std::vector<WantedArray> arrays) {
  Weights weights;
  for (WantedArray& array : arrays) {
    weights.arrays.push_back({array.name, ElementType::kFloat32, array.shape, {}});
  }
  sort_by_name(weights, Source{"test", "file"});
  return weights;
}

TEST(Compare, EqualIsEmpty) {
  const std::vector<WantedArray> wanted{{"b", {2}}, {"a", {3, 4}}, {"scalar", {}}};
  const Difference difference = compare(file_with(wanted), wanted);
  EXPECT_TRUE(difference.empty());
  EXPECT_EQ(describe(difference), "");
}

TEST(Compare, NamesEveryKind) {
  const Weights weights = file_with({{"head.weight", {10, 8}}, {"extra", {1}}});
  const std::vector<WantedArray> wanted{{"head.weight", {1000, 8}}, {"head.bias", {1000}}};
  const Difference difference = compare(weights, wanted);
  EXPECT_FALSE(difference.empty());
  EXPECT_EQ(describe(difference),
            "1 array is missing: 'head.bias'; 1 array is unexpected: 'extra'; 1 array is of"
            " another shape: 'head.weight' is (10, 8), wanted (1000, 8)");
}

TEST(Compare, CountsTheRest) {
  const std::vector<WantedArray> wanted{{"e", {}}, {"d", {}}, {"c", {}}, {"b", {}}, {"a", {}}};
  const Difference difference = compare(Weights{}, wanted);
  EXPECT_EQ(difference.missing.size(), 5u);
  EXPECT_EQ(describe(difference), "5 arrays are missing: 'e', 'd', 'c' and 2 more");
}

}  // namespace
}  // namespace mala::io
