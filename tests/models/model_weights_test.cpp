// Weights from files into models and back.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "mala/core/error.h"
#include "mala/io/read_weights.h"
#include "mala/models/vision/mavit.h"
#include "mala/models/weights.h"
#include "tests/support/temporary_folder.h"

namespace mala::models {
namespace {

constexpr const char* kAngle = "layers.2.RoPE.angle";

Mavit small_model(uint64_t seed) {
  torch::manual_seed(seed);
  Mavit model(mavit_config("mavit_n"));
  model->eval();
  return model;
}

class ModelWeights : public testing::Test {
 protected:
  ModelWeights() : path_(folder_.file("weights.safetensors")), saved_(small_model(1)) {
    save_weights(*saved_, path_);
  }

  std::string refusal(Mavit model, const io::Weights& weights) const {
    const Tensor before = model->head->weight.clone();
    try {
      load_weights(*model, weights, path_);
    } catch (const Error& error) {
      EXPECT_TRUE(torch::equal(model->head->weight, before));
      return error.what();
    }
    return "no error";
  }

  test::TemporaryFolder folder_;
  std::string path_;
  Mavit saved_;
};

TEST_F(ModelWeights, ComeBackAsTheyWere) {
  const torch::NoGradGuard no_gradients;
  const Tensor images = torch::randn({2, 3, 32, 32});
  Mavit loaded = small_model(2);
  EXPECT_FALSE(torch::equal(loaded->forward(images), saved_->forward(images)));
  load_weights(*loaded, path_);
  EXPECT_TRUE(torch::equal(loaded->forward(images), saved_->forward(images)));
}

TEST_F(ModelWeights, ChangeTheirTypeOnTheWay) {
  Mavit narrow = small_model(2);
  narrow->to(torch::kBFloat16);
  load_weights(*narrow, path_);
  EXPECT_TRUE(torch::equal(narrow->head->weight, saved_->head->weight.to(torch::kBFloat16)));
  save_weights(*narrow, path_);
  Mavit wide = small_model(3);
  load_weights(*wide, path_);
  EXPECT_TRUE(torch::equal(wide->head->weight, narrow->head->weight.to(torch::kFloat32)));
}

TEST_F(ModelWeights, MismatchesNameTheFirstKeys) {
  io::Weights weights = io::read_weights(path_);
  std::erase_if(weights.arrays, [](const io::Array& a) { return a.name == "head.bias"; });
  for (io::Array& array : weights.arrays) {
    if (array.name == "head.weight") array.shape = {512, 10, 1, 1};
  }
  weights.arrays.push_back({.name = "zebra", .shape = {0}, .bytes = {}});
  const std::string message = refusal(small_model(2), weights);
  for (const char* part : {"head.bias", "(512, 10, 1, 1)", "zebra", "weights.safetensors"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
}

TEST_F(ModelWeights, GoWithoutCountsOfBatches) {
  io::Weights weights = io::read_weights(path_);
  const size_t all = weights.arrays.size();
  std::erase_if(weights.arrays,
                [](const io::Array& a) { return a.name.ends_with("num_batches_tracked"); });
  EXPECT_EQ(weights.arrays.size(), all - 8);
  Mavit model = small_model(2);
  load_weights(*model, weights, path_);
  EXPECT_TRUE(torch::equal(model->head->weight, saved_->head->weight));
}

TEST_F(ModelWeights, MayNotBringOtherAngles) {
  saved_->named_buffers()[kAngle].mul_(1.5);
  save_weights(*saved_, path_);
  EXPECT_NE(refusal(small_model(2), io::read_weights(path_)).find(kAngle), std::string::npos);
}

TEST_F(ModelWeights, OfTypesWithoutATensorAreRefused) {
  io::Weights weights = io::read_weights(path_);
  for (io::Array& array : weights.arrays) {
    if (array.name == "head.bias") array.type = io::ElementType::kUInt32;
  }
  EXPECT_NE(refusal(small_model(2), weights).find("uint32"), std::string::npos);
}

}  // namespace
}  // namespace mala::models
