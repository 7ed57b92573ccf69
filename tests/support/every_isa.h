// A fixture that runs a test once for every instruction set this machine has, on one thread unless
// the test asks for more: a pool that wakes for every small call costs more than the call.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "mala/kernels/cpu/isa.h"
#include "tests/support/threads.h"

namespace mala::test {

// All that the machine has; under ThreadSanitizer the best alone, since races do not depend on it.
inline std::vector<std::string> tested_isas() {
  std::vector<std::string> isas = cpu::usable_isas();
#ifdef __SANITIZE_THREAD__
  isas.resize(1);
#endif
  return isas;
}

// Use with INSTANTIATE_TEST_SUITE_P(EveryIsa, YourTest, ValuesIn(tested_isas()), isa_name).
class IsaTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    before_ = cpu::current_isa();
    cpu::use_isa(GetParam());
  }
  void TearDown() override { cpu::use_isa(before_); }

 private:
  std::string before_;
  ThreadCount one_thread_{1};
};

inline std::string isa_name(const testing::TestParamInfo<std::string>& test) { return test.param; }

}  // namespace mala::test
