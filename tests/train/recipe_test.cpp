// Recipes: what a file sets, what the command line changes, what is refused.
#include "mala/train/recipe.h"

#include <gtest/gtest.h>

#include "mala/train/config.h"
#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"

namespace mala::train {
namespace {

using test::refusal;
using test::says;

class Recipe : public testing::Test {
 protected:
  std::string read(const std::string& text) {
    path_ = folder_.write("recipe.toml", text);
    return path_;
  }
  std::string refused(const std::string& text) {
    const std::string path = read(text);
    return refusal([&] { read_recipe(path, fields_of(config_)); });
  }

  test::TemporaryFolder folder_;
  std::string path_;
  TrainConfig config_;
};

TEST_F(Recipe, SetsWhatItNamesAndNothingElse) {
  const std::string path = read(
      "task = \"classify\"\n[schedule]\nepochs = 300\nmin_lr = 1\n"
      "[optimizer]\nlr = 5e-4\nfreeze = [\"stem\", \"layers.0\"]\nchannels_last = false\n");
  read_recipe(path, fields_of(config_));
  EXPECT_EQ(task_of_recipe(path), "classify");
  EXPECT_EQ(config_.schedule.epochs, 300);
  EXPECT_EQ(config_.schedule.min_lr, 1);  // a whole number is a number too
  EXPECT_EQ(config_.optimizer.lr, 5e-4);
  EXPECT_EQ(config_.optimizer.freeze, (std::vector<std::string>{"stem", "layers.0"}));
  EXPECT_FALSE(config_.optimizer.channels_last);
  EXPECT_EQ(config_.optimizer.beta1, TrainConfig{}.optimizer.beta1);
}

TEST_F(Recipe, CommandLineComesAfterTheFile) {
  read_recipe(read("[schedule]\nepochs = 300\n"), fields_of(config_));
  apply_overrides({"epochs=2", "optimizer.lr=0.25", "freeze=a,b"}, fields_of(config_));
  EXPECT_EQ(config_.schedule.epochs, 2);
  EXPECT_EQ(config_.optimizer.lr, 0.25);
  EXPECT_EQ(config_.optimizer.freeze.size(), 2u);
}

TEST_F(Recipe, MistypedKeysGetTheNearest) {
  EXPECT_TRUE(says(refused("[schedule]\nepocs = 3\n"), "did you mean schedule.epochs?"));
  EXPECT_TRUE(says(refused("[schedule]\nepocs = 3\n"), "recipe.toml:2"));
  EXPECT_TRUE(says(refused("[shedule]\nepochs = 3\n"), "did you mean schedule.epochs?"));
  const std::string message = refusal([&] { apply_overrides({"leraning=1"}, fields_of(config_)); });
  EXPECT_TRUE(says(message, "there is no setting 'leraning'"));
  EXPECT_TRUE(says(refusal([&] { apply_overrides({"sedd=1"}, fields_of(config_)); }),
                   "did you mean seed?"));
}

TEST_F(Recipe, RefusesOtherKindsAndBrokenFiles) {
  EXPECT_TRUE(says(refused("[schedule]\nepochs = \"many\"\n"),
                   "schedule.epochs is a whole number, not a text"));
  EXPECT_TRUE(says(refused("[schedule]\nepochs = 1.5\n"), "a whole number, not a number"));
  EXPECT_TRUE(says(refused("[optimizer]\nfreeze = [1]\n"), "a list of texts, not a list"));
  EXPECT_TRUE(says(refused("[schedule\n"), "recipe.toml:1"));
  EXPECT_TRUE(says(refused("[schedule\n"), "is no TOML"));
  EXPECT_TRUE(says(refusal([&] { read_recipe(folder_.file("none.toml"), {}); }), "none.toml"));
  EXPECT_TRUE(
      says(refusal([&] { apply_overrides({"epochs"}, fields_of(config_)); }), "write key=value"));
}

TEST_F(Recipe, WrittenRecipeReadsBack) {
  config_.optimizer.lr = 0.1 + 0.2;
  config_.run.out = "a \"b\" \\ c";
  config_.optimizer.freeze = {"x", "y"};
  const std::string text = write_recipe("classify", fields_of(config_));
  TrainConfig other;
  read_recipe(read(text), fields_of(other));
  EXPECT_EQ(write_recipe("classify", fields_of(other)), text);
  EXPECT_EQ(other.run.out, config_.run.out);
}

TEST(TrainConfig, RefusesWhatMakesNoSense) {
  const auto said = [](const char* setting) {
    TrainConfig config;
    apply_overrides({setting}, fields_of(config));
    return refusal([&] { check_config(config); });
  };
  check_config({});
  EXPECT_TRUE(says(said("epochs=0"), "schedule.epochs is 0"));
  EXPECT_TRUE(says(said("precision=half"), "use one of float32, bfloat16, float16"));
  EXPECT_TRUE(says(said("lr=-1"), "optimizer.lr"));
  EXPECT_TRUE(says(said("accumulate=0"), "optimizer.accumulate"));
  EXPECT_TRUE(says(said("keep=0"), "run.keep"));
  EXPECT_TRUE(says(said("out="), "run.out is empty"));
}

}  // namespace
}  // namespace mala::train
