// The text of errors.
#include "mala/core/error.h"

#include <gtest/gtest.h>

namespace mala {
namespace {

TEST(Str, JoinsValuesOfAnyKind) {
  EXPECT_EQ(str("k has head size ", 16, " but q has ", 8, '.'), "k has head size 16 but q has 8.");
}

TEST(Check, ThrowsTheCallAndTheMessage) {
  try {
    check(false, "attention_forward", "q has ", 0, " tokens; at least ", 1, " is needed");
    FAIL() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "[attention_forward] q has 0 tokens; at least 1 is needed");
  }
}

TEST(Check, DoesNothingWhenAllIsWell) { EXPECT_NO_THROW(check(true, "anywhere", "anything")); }

// Callers that know nothing of mala catch it too.
TEST(Error, IsARuntimeError) { EXPECT_THROW(check(false, "here", "no"), std::runtime_error); }

}  // namespace
}  // namespace mala
