// The folded form answers what the model answers.
#include "mala/models/vision/mavit_inference.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "mala/core/error.h"

namespace mala::models {
namespace {

// Norms with statistics, and scales and biases that are neither 0 nor 1, so that each one counts.
Mavit lively_model(const char* mixers) {
  const torch::NoGradGuard no_gradients;
  torch::manual_seed(1);
  Mavit model(with_mixers(mavit_config("mavit_n"), mixers));
  for (Tensor& parameter : model->parameters()) parameter.add_(0.05 * torch::randn_like(parameter));
  for (auto& item : model->named_buffers()) {
    if (item.key().ends_with("running_mean")) item.value().normal_(0, 0.2);
    if (item.key().ends_with("running_var")) item.value().uniform_(0.5, 2);
  }
  model->eval();
  return model;
}

double relative_difference(const Tensor& actual, const Tensor& expected) {
  return ((actual - expected).abs().max() / expected.abs().max()).item<double>();
}

class MavitInferenceForm : public testing::TestWithParam<const char*> {};

TEST_P(MavitInferenceForm, AnswersAsTheModel) {
  const torch::NoGradGuard no_gradients;
  Mavit model = lively_model(GetParam());
  const MavitInference folded(*model);
  for (const auto& [height, width] : {std::pair{32, 32}, {33, 71}, {1, 1}}) {
    const Tensor images = torch::randn({3, 3, height, width});
    EXPECT_LT(relative_difference(folded.forward(images), model->forward(images)), 2e-5)
        << height << " x " << width;
  }
}

// Folded in double, so that a model in double keeps all its digits.
TEST_P(MavitInferenceForm, AnswersInDouble) {
  const torch::NoGradGuard no_gradients;
  Mavit model = lively_model(GetParam());
  model->to(torch::kFloat64);
  const Tensor images = torch::randn({1, 3, 32, 32}, torch::kFloat64);
  EXPECT_LT(relative_difference(MavitInference(*model).forward(images), model->forward(images)),
            1e-12);
}

// Folding may not cost a narrow type its digits: no further from the truth than the model itself in
// bfloat16, give or take the luck of its roundings.
TEST_P(MavitInferenceForm, KeepsTheDigitsOfBfloat16) {
  const torch::NoGradGuard no_gradients;
  Mavit model = lively_model(GetParam());
  model->to(torch::kBFloat16);
  const Tensor images = torch::randn({4, 3, 32, 32}).to(torch::kBFloat16);
  const Tensor folded = MavitInference(*model).forward(images);
  const Tensor plain = model->forward(images);
  model->to(torch::kFloat64);
  const Tensor truth = model->forward(images.to(torch::kFloat64));
  EXPECT_LT(relative_difference(folded, truth), 1.5 * relative_difference(plain, truth));
}

INSTANTIATE_TEST_SUITE_P(Every, MavitInferenceForm,
                         testing::Values("mala", "softmax", "linear", "inline"),
                         [](const auto& test) { return std::string(test.param); });

TEST(MavitInference, KeepsItsAnswersWhenTheModelChanges) {
  const torch::NoGradGuard no_gradients;
  Mavit model = lively_model("mala");
  const MavitInference folded(*model);
  const Tensor images = torch::randn({1, 3, 32, 32});
  const Tensor before = folded.forward(images);
  for (Tensor& parameter : model->parameters()) parameter.zero_();
  for (Tensor& buffer : model->buffers()) buffer.zero_();
  EXPECT_TRUE(torch::equal(folded.forward(images), before));
}

TEST(MavitInference, LeavesThePictureAsItWas) {
  const MavitInference folded(*lively_model("mala"));
  const Tensor images = torch::randn({1, 3, 32, 32}).contiguous(torch::MemoryFormat::ChannelsLast);
  const Tensor before = images.clone();
  folded.forward(images);
  EXPECT_TRUE(torch::equal(images, before));
}

// Copies of images and of heads, which every change of layout makes; both have four dimensions.
// Tables of RoPE, and biases that torch spreads over products, have fewer.
class CopyCounter {
 public:
  CopyCounter() {
    at::addThreadLocalCallback(
        at::RecordFunctionCallback(count).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
    copies = 0;
  }
  ~CopyCounter() { at::clearThreadLocalCallbacks(); }

  static inline int copies = 0;

 private:
  static std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
    const std::string_view name = function.name();
    if (name != "aten::copy_" && name != "aten::clone") return nullptr;
    const c10::IValue& input = function.inputs()[0];
    if (input.isTensor() && input.toTensor().dim() >= 4) ++copies;
    return nullptr;
  }
};

TEST_P(MavitInferenceForm, CopiesNothingFromThePictureToTheHead) {
  const MavitInference folded(*lively_model(GetParam()));
  const Tensor images = torch::randn({2, 3, 64, 48});
  const Tensor pixels = images.contiguous(torch::MemoryFormat::ChannelsLast);
  const CopyCounter counter;
  folded.forward(pixels);
  EXPECT_EQ(CopyCounter::copies, 0);
  folded.forward(images);
  EXPECT_GT(CopyCounter::copies, 0) << "the counter does not see the picture laid out anew";
}

TEST(MavitInference, RefusesWhatIsNoPicture) {
  const MavitInference folded(*lively_model("mala"));
  EXPECT_THROW(folded.forward(torch::randn({1, 1, 32, 32})), Error);
  EXPECT_THROW(folded.forward(torch::randn({1, 3, 32, 32}, torch::kFloat64)), Error);
}

}  // namespace
}  // namespace mala::models
