// The list of GPUs, on machines with and without one.
#include "mala/kernels/cuda/devices.h"

#include <gtest/gtest.h>

namespace mala::gpu {
namespace {

TEST(Devices, SaysWhyThereIsNone) {
  if (!devices().empty()) GTEST_SKIP() << "this machine has " << devices().front().name;
  EXPECT_TRUE(why_no_device().starts_with("[devices] ")) << why_no_device();
}

TEST(Devices, DescribesThoseThatRunOurCode) {
  if (devices().empty()) GTEST_SKIP() << why_no_device();
  for (const Device& device : devices()) {
    SCOPED_TRACE(device.name);
    EXPECT_FALSE(device.name.empty());
    EXPECT_GE(device.major, 8);  // the oldest architecture that cmake/cuda.cmake compiles for
    EXPECT_GT(device.memory_bytes, int64_t{1} << 30);
    EXPECT_GT(device.multiprocessors, 0);
  }
}

// A second call must not probe again and find something else.
TEST(Devices, AreTheSameEachTime) {
  const std::vector<Device> first = devices(), second = devices();
  ASSERT_EQ(first.size(), second.size());
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].name, second[i].name);
}

}  // namespace
}  // namespace mala::gpu
