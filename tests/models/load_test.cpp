// Which model a file is for: told by its card, by its shapes, or by whoever asks.
#include "mala/models/vision/load.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "mala/io/read_weights.h"
#include "mala/models/vision/macs.h"
#include "mala/models/vision/recognise.h"
#include "mala/models/vision/size.h"
#include "mala/models/weights.h"
#include "tests/models/count_parameters.h"
#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"

namespace mala::models {
namespace {

class LoadVision : public testing::Test {
 protected:
  std::string save(const torch::nn::Module& model, const Metadata& metadata = {}) const {
    const std::string path = folder_.file("a.safetensors");
    save_weights(model, path, metadata);
    return path;
  }

  MavitConfig small() const {
    MavitConfig config = mavit_config("mavit_n");
    config.classes = 4;
    return config;
  }

  test::TemporaryFolder folder_;
};

TEST_F(LoadVision, RecognisesAKnownModelByItsShapes) {
  Mavit model(small());
  const LoadedVision loaded = load_vision({.weights = save(*model), .model = {}, .mixers = {}});
  EXPECT_EQ(loaded.card.model, "mavit_n");
  EXPECT_EQ(loaded.card.mixers, "mala,mala,mala,mala");
  EXPECT_EQ(loaded.card.image_size, 32);
  EXPECT_EQ(classes_of(loaded.config), 4);
  EXPECT_TRUE(loaded.is_trained);
  EXPECT_TRUE(torch::equal(std::get<Mavit>(loaded.model)->head->weight, model->head->weight));
}

TEST_F(LoadVision, RecognisesAnyWidthsDepthsAndHeads) {
  MavitConfig odd = small();
  odd.stages = {{{.dim = 24, .depth = 2, .heads = 1},
                 {.dim = 48, .depth = 1, .heads = 3},
                 {.dim = 16, .depth = 3, .heads = 2},
                 {.dim = 8, .depth = 1, .heads = 1}}};
  odd.mlp_ratio = 7.0 / 3;
  odd.projection = 12;
  Mavit model(odd);
  const VisionConfig found = recognise(io::read_weights(save(*model)), "a");
  const auto& config = std::get<MavitConfig>(found);
  EXPECT_EQ(config.name, "mavit");
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(config.stages[i].dim, odd.stages[i].dim);
    EXPECT_EQ(config.stages[i].depth, odd.stages[i].depth);
    EXPECT_EQ(config.stages[i].heads, odd.stages[i].heads);
  }
  EXPECT_EQ(mixers_of(found), "mala,mala,softmax,softmax");
  EXPECT_EQ(count_parameters(config), count_parameters(*model));
  EXPECT_NO_THROW(load_vision({.weights = save(*model), .model = {}, .mixers = {}}));
}

TEST_F(LoadVision, RecognisesDeit) {
  DeitConfig config = deit_config("deit_t");
  config.depth = 2;
  config.grid = 3;
  config.classes = 5;
  Deit model(config);
  const LoadedVision loaded = load_vision({.weights = save(*model), .model = {}, .mixers = "mala"});
  EXPECT_EQ(loaded.card.model, "deit");
  EXPECT_EQ(loaded.card.mixers, "mala");
  EXPECT_EQ(loaded.card.image_size, 48);
  EXPECT_EQ(std::get<DeitConfig>(loaded.config).heads, 3);
  EXPECT_EQ(classes_of(loaded.config), 5);
}

TEST_F(LoadVision, FollowsTheCardAndTheRequestAboveIt) {
  Mavit model(small());
  const Card card{
      .model = "mavit_n", .mixers = "linear", .image_size = 48, .labels = {"a", "b", "c", "d"}};
  const std::string path = save(*model, metadata_of(card));
  const LoadedVision loaded = load_vision({.weights = path, .model = {}, .mixers = {}});
  EXPECT_EQ(loaded.card.mixers, "linear,linear,linear,linear");
  EXPECT_EQ(loaded.card.image_size, 48);
  EXPECT_EQ(loaded.card.labels, card.labels);
  const LoadedVision asked = load_vision({.weights = path, .model = {}, .mixers = "softmax"});
  EXPECT_EQ(asked.card.mixers, "softmax,softmax,softmax,softmax");
}

TEST_F(LoadVision, RefusesWhatFitsNoModel) {
  Mavit model(small());
  const std::string few = save(*model, metadata_of({.labels = {"a", "b"}}));
  EXPECT_NE(test::refusal([&] {
              load_vision({.weights = few, .model = {}, .mixers = {}});
            }).find("2 labels and 4 classes"),
            std::string::npos);
  const std::string message =
      test::refusal([&] { load_vision({.weights = few, .model = "mavit_x", .mixers = {}}); });
  EXPECT_NE(message.find("did you mean mavit_"), std::string::npos) << message;
  EXPECT_NE(test::refusal([] { load_vision({}); }).find("neither weights nor"), std::string::npos);
}

// Every array that the shapes are read from, missing and of shapes that no model has.
TEST_F(LoadVision, RefusesShapesThatNoModelHas) {
  Mavit model(small());
  const io::Weights whole = io::read_weights(save(*model));
  for (const char* name : {"layers.0.blocks.0.attn.proj.weight", "layers.3.RoPE.angle",
                           "layers.0.blocks.0.ffn.fc1.weight", "proj.weight", "head.weight"}) {
    for (const io::Shape& shape : {io::Shape{}, io::Shape{0, 1}, io::Shape{int64_t{1} << 40, 1}}) {
      io::Weights wrong = whole;
      for (io::Array& array : wrong.arrays) {
        if (array.name == name) array.shape = shape;
      }
      EXPECT_NE(test::refusal([&] { recognise(wrong, "file"); }).find(name), std::string::npos);
    }
    io::Weights without = whole;
    std::erase_if(without.arrays, [&](const io::Array& array) { return array.name == name; });
    EXPECT_NE(test::refusal([&] { recognise(without, "file"); }).find(name), std::string::npos);
  }
}

TEST(Size, CountsAsTorchDoes) {
  for (const char* name : {"mavit_n", "mavit_t"}) {
    EXPECT_EQ(count_parameters(mavit_config(name)), count_parameters(*Mavit(mavit_config(name))));
  }
  EXPECT_EQ(count_parameters(mavit_config("mavit_l")), 97'766'088);
  EXPECT_EQ(count_parameters(deit_config("deit_t")), 5'717'416);
  EXPECT_EQ(count_parameters(deit_config("deit_s")), 22'050'664);
}

// The paper of DeiT has 1.3 and 4.6 billion; those are rounded, and have softmax's products.
TEST(Size, MultiplyAddsOfDeitAreThoseOfItsPaper) {
  EXPECT_NEAR(static_cast<double>(count_macs(deit_config("deit_t"), {224, 224})) / 1e9, 1.3, 0.05);
  EXPECT_NEAR(static_cast<double>(count_macs(deit_config("deit_s"), {224, 224})) / 1e9, 4.6, 0.05);
}

}  // namespace
}  // namespace mala::models
