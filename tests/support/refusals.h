// What a refused call says.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "mala/core/error.h"

namespace mala::test {

// The message of the mala::Error that `run` throws; empty, and a failure, when it throws none.
template <typename Run>
std::string refusal(Run&& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

inline testing::AssertionResult says(const std::string& message, const std::string& words) {
  if (message.find(words) != message.npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << message << "\" does not say \"" << words << "\"";
}

}  // namespace mala::test
