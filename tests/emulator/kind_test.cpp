// Whether the emulator is the kind of GPU that the name of a run says: each run has one of these.
#include <gtest/gtest.h>

#include "tests/emulator/device_kind.h"
#include "tests/emulator/host_calls.h"

namespace mala::emulator {
namespace {

TEST(EmulatedKind, sm_80) { EXPECT_STREQ(device_kind().name, "sm_80"); }
TEST(EmulatedKind, sm_90) { EXPECT_STREQ(device_kind().name, "sm_90"); }
TEST(EmulatedKind, sm_90_part) {
  EXPECT_STREQ(device_kind().name, "sm_90_part");
  EXPECT_FALSE(fits_at_once({1, 1, 1}));
}
TEST(EmulatedKind, sm_120) { EXPECT_STREQ(device_kind().name, "sm_120"); }

}  // namespace
}  // namespace mala::emulator
