// How heads fall apart on a device: no GPU is needed to tell.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "mala/kernels/cuda/parts.h"

namespace mala::gpu {
namespace {

// As an H200 says of itself.
DeviceFacts some_device() {
  DeviceFacts device;
  device.multiprocessors = 132;
  device.has_wgmma = true;
  const int blocks[] = {132, 132, 120, 120};
  std::copy(std::begin(blocks), std::end(blocks), device.cluster_blocks);
  return device;
}

TEST(Parts, ClustersDivideThemAndSumsStayShort) {
  for (const int64_t heads : {1, 2, 3, 15, 32, 64, 100, 131, 132, 133, 528, 1536}) {
    for (const int64_t tiles : {1, 2, 13, 49, 256, 1024, 100'000}) {
      for (const int64_t teams : {1, 2, 4}) {
        const HopperSide side{heads, tiles, teams, true};
        const HopperParts of = hopper_parts(side, some_device(), 1);
        EXPECT_EQ(of.parts % of.cluster, 0);
        const int64_t tokens = hopper_part_tokens(side, of.parts);
        EXPECT_EQ(tokens % kHopperTile, 0);
        EXPECT_GE(tokens * of.parts, tiles * kHopperTile);
        EXPECT_LE(divide_up(tokens, teams), kMostPartTokens);
      }
    }
  }
}

// Thirty clusters of four fit at once, so that 32 heads are better off with clusters of two.
TEST(Parts, NoClusterWaitsForAnother) {
  const HopperParts of = hopper_parts({32, 256, 2, true}, some_device(), 1);
  EXPECT_EQ(of.parts, 4);
  EXPECT_EQ(of.cluster, 2);
  const HopperParts two = hopper_parts({64, 49, 4, true}, some_device(), 1);
  EXPECT_EQ(two.parts, 2);
  EXPECT_EQ(two.cluster, 2);
}

TEST(Parts, WithoutSumsThereIsNothingToAdd) {
  EXPECT_EQ(hopper_parts({3, 1000, 4, false}, some_device(), 1).cluster, 1);
}

// One head of many tokens fills the device.
TEST(Parts, AreAsManyAsTheDeviceHolds) {
  const HopperParts of = hopper_parts({1, 1024, 4, true}, some_device(), 1);
  EXPECT_GE(of.parts, 104);
  EXPECT_LE(of.parts, 132);
}

}  // namespace
}  // namespace mala::gpu
