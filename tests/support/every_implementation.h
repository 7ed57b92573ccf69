// A fixture that runs a test for the definition, then for every instruction set this machine has,
// on one thread.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/every_isa.h"

namespace mala::test {

inline const char* const kDefinition = "definition";

inline std::vector<std::string> implementations() {
  std::vector<std::string> names = tested_isas();
  names.insert(names.begin(), kDefinition);
  return names;
}

// Use with INSTANTIATE_TEST_SUITE_P(DefinitionAndEveryIsa, YourTest, ValuesIn(implementations()),
// isa_name).
class ImplementationTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    before_ = cpu::current_isa();
    if (!is_definition()) cpu::use_isa(GetParam());
  }
  void TearDown() override { cpu::use_isa(before_); }

  static bool is_definition() { return GetParam() == kDefinition; }

 private:
  std::string before_;
  ThreadCount one_thread_{1};
};

// Calls check with a number of each type.
template <typename Check>
void in_each_type(Check&& check) {
  check(float{});
  check(double{});
}

}  // namespace mala::test
