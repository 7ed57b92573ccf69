// A tiny MAViT against what plain PyTorch answered in float64: tests/golden/tiny_mavit.py.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include "mala/io/read_weights.h"
#include "mala/models/vision/mavit.h"
#include "mala/models/weights.h"

namespace mala::models {
namespace {

struct Golden {
  const char* name;
  const char* mixers;
};

constexpr Golden kGolden[] = {{"hybrid", "mala,mala,softmax,softmax"},
                              {"linear", "inline,linear,mala,linear"}};

std::string file(const std::string& name) { return std::string(MALA_TEST_GOLDEN "/") + name; }

MavitConfig tiny_config() {
  return {.name = "tiny",
          .stages = {{{.dim = 8, .depth = 1, .heads = 1},
                      {.dim = 8, .depth = 1, .heads = 1},
                      {.dim = 16, .depth = 2, .heads = 2},
                      {.dim = 16, .depth = 1, .heads = 1}}},
          .projection = 20,
          .classes = 7};
}

class MavitGolden : public testing::TestWithParam<Golden> {
 protected:
  MavitGolden()
      : answers_(io::read_weights(file("tiny_mavit_answers.safetensors"))),
        model_(with_mixers(tiny_config(), GetParam().mixers)) {
    load_weights(*model_, file("tiny_mavit_weights.safetensors"));
  }

  Tensor answer(const std::string& name) const {
    const io::Array* array = answers_.find(name);
    if (!array) throw std::runtime_error("no answer " + name);
    const Tensor tensor = torch::empty(array->shape);
    std::memcpy(tensor.mutable_data_ptr(), array->bytes.data(), array->bytes.size());
    return tensor;
  }

  std::string own(const std::string& name) const { return name + "." + GetParam().name; }

  io::Weights answers_;
  Mavit model_;
};

// Rounding of some hundred float32 operations, relative to the largest value.
void expect_close(const Tensor& actual, const Tensor& expected, const std::string& name,
                  double tolerance) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << name;
  const double size = expected.abs().max().item<double>();
  EXPECT_LT((actual - expected).abs().max().item<double>(), tolerance * size) << name;
}

TEST_P(MavitGolden, LogitsAgree) {
  const torch::NoGradGuard no_gradients;
  model_->eval();
  expect_close(model_->forward(answer("images")), answer(own("logits")), "logits", 1e-5);
}

TEST_P(MavitGolden, GradientsOfTrainingAgree) {
  model_->train();
  const Tensor images = answer("images").requires_grad_();
  const Tensor labels = torch::arange(images.size(0)) % tiny_config().classes;
  const Tensor loss = torch::cross_entropy_loss(model_->forward(images), labels);
  loss.backward();
  expect_close(loss.detach(), answer(own("loss")), "loss", 1e-5);
  expect_close(images.grad(), answer(own("gradient") + ".images"), "images", 1e-4);
  for (const auto& item : model_->named_parameters()) {
    const Tensor expected = answer(own("gradient") + "." + item.key());
    // A bias before a batch norm has no effect: its gradient is rounding, in both programs.
    if (expected.abs().max().item<double>() < 1e-12) {
      EXPECT_LT(item.value().grad().abs().max().item<double>(), 1e-5) << item.key();
    } else {
      expect_close(item.value().grad(), expected, item.key(), 1e-4);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, MavitGolden, testing::ValuesIn(kGolden),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace mala::models
