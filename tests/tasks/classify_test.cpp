// The parts of classification that the program's own tests cannot look into.
#include "mala/tasks/classify.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "mala/tasks/evaluate.h"
#include "tests/support/refusals.h"

namespace mala::tasks {
namespace {

Classifier small_classifier(const Placement& placement = {}) {
  return {models::load_vision({.weights = {}, .model = "mavit_n", .mixers = {}}), placement};
}

data::ImageBatch random_batch(int64_t count) {
  torch::manual_seed(3);
  const torch::Tensor pixels = torch::randn({count, 32, 32, 3});
  data::ImageBatch batch;
  batch.count = count;
  batch.size = 32;
  batch.pixels.assign(pixels.const_data_ptr<float>(),
                      pixels.const_data_ptr<float>() + pixels.numel());
  return batch;
}

TEST(BestOf, ComesInOrderAndStopsAtTheLastClass) {
  const at::Tensor probabilities = torch::tensor({{0.1f, 0.6f, 0.3f}, {0.5f, 0.2f, 0.3f}});
  const auto two = best_of(probabilities, 2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0][0].index, 1);
  EXPECT_EQ(two[0][1].index, 2);
  EXPECT_FLOAT_EQ(static_cast<float>(two[1][0].probability), 0.5f);
  EXPECT_EQ(best_of(probabilities, 100)[0].size(), 3u);
}

// One picture after the other, or all at once: the same answers up to rounding.
TEST(Classifier, AnswersDoNotDependOnTheBatch) {
  const Classifier classifier = small_classifier();
  const data::ImageBatch three = random_batch(3);
  const at::Tensor together = classifier.probabilities(three);
  EXPECT_NEAR(together.sum().item<double>(), 3, 1e-5);
  data::ImageBatch last = random_batch(1);
  last.pixels.assign(three.pixels.end() - std::ssize(last.pixels), three.pixels.end());
  EXPECT_TRUE(torch::allclose(classifier.probabilities(last)[0], together[2], 1e-4, 1e-6));
}

TEST(Classifier, WorksInShorterNumbers) {
  const data::ImageBatch batch = random_batch(2);
  const at::Tensor wide = small_classifier().probabilities(batch);
  const at::Tensor narrow = small_classifier(choose_placement("cpu", "bf16")).probabilities(batch);
  EXPECT_FALSE(torch::equal(wide, narrow));
  EXPECT_LT((wide - narrow).abs().max().item<double>(), 0.02);
}

TEST(Classifier, TakesALabelForEachClass) {
  Classifier classifier = small_classifier();
  EXPECT_EQ(classifier.label(3), "");
  const std::string message = test::refusal([&] {
    classifier.set_labels({"a", "b"}, "labels.txt");
  });
  EXPECT_NE(message.find("labels.txt has 2 labels, the model has 10"), std::string::npos);
  classifier.set_labels(std::vector<std::string>(10, "a"), "labels.txt");
  EXPECT_EQ(classifier.label(3), "a");
}

TEST(Placement, RefusesWhatIsNotThere) {
  EXPECT_NE(test::refusal([] { choose_placement("cpu", "float16"); }).find("bf16"),
            std::string::npos);
  for (const char* word : {"gpu", "", "cuda:x", "cuda:99", "cuda:-1"}) {
    EXPECT_NE(test::refusal([&] { choose_placement(word, "float32"); }), "") << word;
  }
  EXPECT_EQ(describe(choose_placement("cpu", "bf16")), "bfloat16 on cpu");
}

TEST(Confusion, CountsAndFindsTheWorstMistake) {
  Confusion confusion(3);
  confusion.add(0, 0);
  confusion.add(0, 1);
  confusion.add(0, 2);
  confusion.add(0, 2);
  confusion.add(1, 1);
  EXPECT_EQ(confusion.count(0), 4);
  EXPECT_EQ(confusion.count(0, 2), 2);
  EXPECT_EQ(confusion.mistaken_for(0), 2);
  EXPECT_EQ(confusion.mistaken_for(1), -1);
  EXPECT_EQ(confusion.mistaken_for(2), -1);
}

TEST(Confusion, PicturesStayWithinReason) {
  for (const int64_t classes : {1, 2, 10, 1000, 5000}) {
    Confusion confusion(classes);
    confusion.add(0, 0);
    const data::Image image = picture_of(confusion);
    EXPECT_EQ(image.size.width, image.size.height);
    EXPECT_EQ(image.size.width % classes, 0);
    EXPECT_GE(image.size.width, 600);
    EXPECT_LE(image.size.width, std::max<int64_t>(2560, classes));
    EXPECT_EQ(image.row(0)[1], 110);  // all of class 0 was right: the fullest green
  }
}

}  // namespace
}  // namespace mala::tasks
