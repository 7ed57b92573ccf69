// Whole runs of a small task: that they learn, go on to the bit, and stop with a reason.
#include "mala/train/trainer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "mala/io/safetensors.h"
#include "mala/train/broken_layer.h"
#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/line_task.h"

namespace mala::train {
namespace {

using test::LineTask;
using test::refusal;
using test::says;

// Remembers what it is told, and asks to stop after some steps.
struct Watcher : Observer {
  explicit Watcher(int64_t stop = -1) : stop_after(stop) {}

  void on_step(const StepReport& report) override { losses.push_back(report.loss); }
  void on_evaluation(const EvaluationReport& report) override { evaluations.push_back(report); }
  void on_notice(const std::string& text) override { notices.push_back(text); }
  bool should_stop() override { return ++asked == stop_after; }

  int64_t stop_after, asked = 0;
  std::vector<double> losses;
  std::vector<EvaluationReport> evaluations;
  std::vector<std::string> notices;
};

class Trainer : public testing::Test {
 protected:
  Trainer() {
    config_.run.out = folder_.file("run");
    config_.run.report_every = 1;
    config_.optimizer.lr = 0.02;
    config_.schedule = {.epochs = 4, .warmup_epochs = 1, .ema_decay = 0.9};
  }

  Outcome run(LineTask& task, Observer& observer, bool resume = false) {
    Group alone({}, torch::kCPU);
    return train({task, config_, alone, torch::kCPU, "a recipe"}, observer, resume);
  }
  std::string refused(LineTask& task, bool resume = false) {
    Watcher watcher;
    return refusal([&] { run(task, watcher, resume); });
  }
  std::vector<nlohmann::json> metrics() const {
    std::vector<nlohmann::json> lines;
    std::istringstream text(test::read_text(config_.run.out + "/metrics.jsonl"));
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  std::vector<std::string> checkpoints() const {
    std::vector<std::string> names;
    for (const auto& entry :
         std::filesystem::directory_iterator(config_.run.out + "/checkpoints")) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  test::TemporaryFolder folder_;
  TrainConfig config_;
};

TEST_F(Trainer, LearnsAndExportsTheBest) {
  config_.schedule.epochs = 40;
  LineTask task({.batch = 16, .dropout = 0});
  Watcher watcher;
  const Outcome outcome = run(task, watcher);
  EXPECT_TRUE(outcome.is_done);
  EXPECT_EQ(outcome.step, 240);
  EXPECT_GT(*outcome.best, 0.85);  // one half by chance
  EXPECT_LT(watcher.losses.back(), 0.5 * watcher.losses.front());
  double best = 0;
  for (const EvaluationReport& report : watcher.evaluations) {
    for (const auto& [name, value] : report.metrics) best = std::max(best, value);
  }
  EXPECT_EQ(*outcome.best, best);
  const io::Weights exported = io::read_safetensors(outcome.model_file);
  EXPECT_EQ(exported.metadata.at("recipe"), "a recipe");
  EXPECT_EQ(exported.arrays.size(), 7u);
  EXPECT_EQ(checkpoints().size(), 2u);  // run.keep
  EXPECT_EQ(metrics().size(), 240u + 40u);
}

// Stopped after every few steps, in the middle of epochs and at their ends.
TEST_F(Trainer, GoesOnToTheBit) {
  LineTask whole;
  Watcher watcher;
  run(whole, watcher);
  const std::vector<nlohmann::json> expected = metrics();
  config_.run.out = folder_.file("parts");
  int64_t step = 0;
  for (int64_t pause : {1, 3, 2, 6, 5}) {
    LineTask part;
    Watcher stopping(pause);
    const Outcome outcome = run(part, stopping, true);
    EXPECT_EQ(outcome.step, step += pause);
    EXPECT_FALSE(outcome.is_done);
  }
  LineTask last;
  const Outcome outcome = run(last, watcher, true);
  EXPECT_TRUE(outcome.is_done);
  EXPECT_EQ(last.weights(), whole.weights());
  const std::vector<nlohmann::json> found = metrics();
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i]["step"], expected[i]["step"]);
    EXPECT_EQ(found[i].value("loss", 0.0), expected[i].value("loss", 0.0));
    EXPECT_EQ(found[i].value("ema_accuracy", 0.0), expected[i].value("ema_accuracy", 0.0));
  }
}

TEST_F(Trainer, MetricsOfStepsThatComeAgainAreTakenOut) {
  LineTask task;
  Watcher stopping(8);
  run(task, stopping);
  std::ofstream(config_.run.out + "/metrics.jsonl", std::ios::app)
      << "{\"step\": 9, \"kind\": \"step\"}\n{\"step\": 10, \"ki";  // cut off by a kill
  LineTask again;
  Watcher watcher;
  run(again, watcher, true);
  int64_t before = 0;
  for (const nlohmann::json& line : metrics()) {
    if (line["kind"] != "step") continue;
    EXPECT_EQ(line["step"].get<int64_t>(), ++before);
  }
  EXPECT_EQ(before, 24);
}

TEST_F(Trainer, ANumberThatIsNoneStopsWithStepAndLayer) {
  LineTask task({.broken_batch = 3});
  config_.run.save_every = 2;
  const std::string message = refused(task);
  EXPECT_TRUE(says(message, "step 3 (epoch 0): the loss is nan"));
  EXPECT_TRUE(says(message, "it first goes wrong at aten::"));
  EXPECT_TRUE(says(message, "try a lower optimizer.lr"));
  EXPECT_TRUE(says(message, "step_0000000002.safetensors"));
  EXPECT_EQ(checkpoints(), (std::vector<std::string>{"step_0000000002.safetensors"}));
}

// The step that goes wrong also spoils the statistics of the batch norms behind the layer.
TEST(BrokenLayer, IsTheOneBeforeTheStatisticsThatItSpoilt) {
  torch::nn::Sequential model(torch::nn::Linear(2, 4), torch::nn::BatchNorm1d(4));
  {
    const torch::NoGradGuard no_gradients;
    model->parameters()[0].fill_(1e30);
  }
  const auto loss = [&] { return model->forward(torch::full({3, 2}, 1e30)).sum(); };
  loss();
  ASSERT_FALSE(torch::isfinite(model->named_buffers()["1.running_mean"]).all().item<bool>());
  const std::string found = find_broken_layer(*model, loss);
  EXPECT_TRUE(says(found, "aten::"));
  EXPECT_TRUE(says(found, "'0'"));
}

TEST_F(Trainer, NamesTheLayerWhoseWeightsAreBroken) {
  LineTask task;
  {
    const torch::NoGradGuard no_gradients;
    task.net->second->weight[0][0] = INFINITY;
  }
  EXPECT_TRUE(says(refused(task), "the weights 'second.weight'"));
}

TEST_F(Trainer, RefusesAFolderThatHoldsARun) {
  LineTask task;
  Watcher watcher(3);
  run(task, watcher);
  EXPECT_TRUE(says(refused(task), "go on with --resume"));
  LineTask other({.batch = 4});
  EXPECT_TRUE(says(refused(other, true), "was made with 8 examples a step"));
  config_.schedule.ema_decay = 0;
  EXPECT_TRUE(says(refused(task, true), "does not fit this run"));
}

TEST_F(Trainer, RefusesADamagedCheckpoint) {
  LineTask task;
  Watcher watcher(3);
  run(task, watcher);
  const std::string path = config_.run.out + "/checkpoints/step_0000000003.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const std::vector<float> before = task.weights();
  EXPECT_TRUE(says(refused(task, true), path));
  EXPECT_EQ(task.weights(), before);
}

TEST_F(Trainer, AFolderThatCannotBeWrittenIsNamed) {
  config_.run.out = folder_.write("file", "x") + "/run";
  LineTask task;
  EXPECT_TRUE(says(refused(task), config_.run.out));
}

// A limit on the size of files stands in for a disk that is full: writing fails half way.
class NoRoom {
 public:
  NoRoom() {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit small = before_;
    small.rlim_cur = 1000;
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~NoRoom() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

TEST_F(Trainer, AFullDiskLeavesTheLastCheckpoint) {
  LineTask task;
  Watcher watcher(7);
  run(task, watcher);
  const std::vector<std::string> before = checkpoints();
  const std::string bytes = test::read_text(config_.run.out + "/checkpoints/" + before.back());
  std::string message;
  {
    // Metrics are small and fit; a checkpoint does not.
    config_.run.report_every = 1000;
    const NoRoom no_room;
    std::filesystem::remove(config_.run.out + "/metrics.jsonl");
    LineTask again;
    message = refused(again, true);
  }
  EXPECT_TRUE(says(message, "cannot be written"));
  EXPECT_EQ(checkpoints(), before);
  EXPECT_EQ(test::read_text(config_.run.out + "/checkpoints/" + before.back()), bytes);
  LineTask rest, whole;
  run(rest, watcher, true);
  config_.run.out = folder_.file("whole");
  run(whole, watcher);
  EXPECT_EQ(rest.weights(), whole.weights());
}

TEST_F(Trainer, NarrowNumbersLearnToo) {
  config_.schedule.epochs = 20;
  config_.run.precision = "bfloat16";
  LineTask task;
  Watcher watcher;
  EXPECT_GT(*run(task, watcher).best, 0.85);
}

}  // namespace
}  // namespace mala::train
