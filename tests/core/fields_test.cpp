// Settings by name, from text and back.
#include "mala/core/fields.h"

#include <gtest/gtest.h>

#include "tests/support/refusals.h"

namespace mala {
namespace {

using test::refusal;
using test::says;

struct Settings {
  bool flip = true;
  int64_t epochs = 3;
  double lr = 0.001;
  std::string name = "a";
  std::vector<std::string> freeze = {"stem", "stage"};
  int64_t data_size = 1, model_size = 2;
};

Fields fields_of(Settings& s) {
  return {{"data.flip", &s.flip, ""},       {"train.epochs", &s.epochs, ""},
          {"train.lr", &s.lr, ""},          {"model.name", &s.name, ""},
          {"train.freeze", &s.freeze, ""},  {"data.size", &s.data_size, ""},
          {"model.size", &s.model_size, ""}};
}

const Source kSource{"test", "here"};

TEST(Fields, TextSetsEveryKind) {
  Settings s;
  const Fields fields = fields_of(s);
  const auto set = [&](const char* name, const char* text) {
    set_from_text(find_field(fields, name, kSource), text, kSource);
  };
  set("data.flip", "false");
  set("epochs", "12");
  set("lr", "5e-4");
  set("name", "mavit_n");
  set("freeze", "a,b.c");
  EXPECT_FALSE(s.flip);
  EXPECT_EQ(s.epochs, 12);
  EXPECT_EQ(s.lr, 5e-4);
  EXPECT_EQ(s.name, "mavit_n");
  EXPECT_EQ(s.freeze, (std::vector<std::string>{"a", "b.c"}));
  set("freeze", "");
  EXPECT_TRUE(s.freeze.empty());
}

TEST(Fields, TextIsReadBackToTheSameValue) {
  Settings s{.lr = 0.1 + 0.2, .name = "with \"quotes\" and \\"};
  EXPECT_EQ(text_of(&s.lr), "0.30000000000000004");
  EXPECT_EQ(text_of(&s.name), R"("with \"quotes\" and \\")");
  EXPECT_EQ(text_of(&s.freeze), R"(["stem", "stage"])");
  EXPECT_EQ(text_of(&s.flip), "true");
  double whole = 2;
  EXPECT_EQ(text_of(&whole), "2.0");  // a whole number would be of another kind
}

TEST(Fields, RefusesWhatIsNoValue) {
  Settings s;
  const Fields fields = fields_of(s);
  const auto said = [&](const char* name, const char* text) {
    return refusal([&] { set_from_text(find_field(fields, name, kSource), text, kSource); });
  };
  EXPECT_TRUE(says(said("epochs", "3.5"), "train.epochs is a whole number, not '3.5'"));
  EXPECT_TRUE(says(said("epochs", "99999999999999999999"), "a whole number"));
  EXPECT_TRUE(says(said("lr", "nan"), "a number"));
  EXPECT_TRUE(says(said("lr", "1e-3x"), "a number"));
  EXPECT_TRUE(says(said("flip", "yes"), "true or false"));
  EXPECT_EQ(s.epochs, 3);
  EXPECT_EQ(s.lr, 0.001);
}

TEST(Fields, NamesTheNearest) {
  Settings s;
  const Fields fields = fields_of(s);
  const auto said = [&](const char* name) {
    return refusal([&] { find_field(fields, name, kSource); });
  };
  EXPECT_TRUE(says(said("epoch"), "did you mean epochs?"));
  EXPECT_TRUE(says(said("train.epochz"), "did you mean train.epochs?"));
  EXPECT_TRUE(says(said("size"), "may be data.size and model.size"));
}

}  // namespace
}  // namespace mala
