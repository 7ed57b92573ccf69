// Training a classifier of pictures.
#pragma once

#include <memory>
#include <optional>
#include <set>

#include "mala/data/batches.h"
#include "mala/tasks/classify_model.h"
#include "mala/tasks/layer_depths.h"
#include "mala/tasks/training_task.h"

namespace mala::tasks {

class ClassifyTraining final : public TrainingTask {
 public:
  // Opens the pictures and makes the model. Throws mala::Error when either cannot be.
  ClassifyTraining(const ClassifyConfig& config, int64_t seed, Shard shard);

  torch::nn::Module& model() override { return *classifier_.module; }
  std::string model_name() const override { return classifier_.card.model; }
  const models::Card& card() const { return classifier_.card; }
  int64_t pictures() const { return train_->size(); }

  int64_t batch_size() const override { return config_.data.batch; }
  int64_t batches_per_epoch() const override;
  void seek(Place place) override;
  torch::Tensor loss(torch::Device device) override;
  torch::Tensor made_up_loss(int64_t examples, torch::Device device) override;

  std::vector<Total> evaluate(torch::Device device) override;
  bool more_is_better() const override { return true; }

  int64_t depth() const override { return depths_.count; }
  int64_t depth_of(const std::string& parameter) const override { return depths_.of.at(parameter); }
  bool checkpoint_activations() override;
  void share_statistics(const SumOverProcesses& sum) override;

  void export_model(const std::string& path,
                    const std::map<std::string, std::string>& facts) override;
  std::vector<std::string> take_notices() override;

 private:
  data::BatchOptions view() const;
  data::BatchOptions training_view(Place place) const;
  void note(const std::vector<data::BadFile>& skipped);

  ClassifyConfig config_;
  uint64_t seed_;
  Shard shard_;
  std::unique_ptr<data::ImageSource> train_, evaluate_;
  TrainableClassifier classifier_;
  LayerDepths depths_;
  std::unique_ptr<data::ImageBatches> batches_;
  Place place_;  // of the next batch
  std::vector<std::string> notices_;
  std::set<std::string> bad_files_;  // each is told once
};

// Cross entropy, mean over the batch: labels may be mixed, `share` of each picture its own and the
// rest the other's, and `smoothing` of every label goes to all classes alike.
struct SoftLabels {
  torch::Tensor labels, others, share;  // (B)
  double smoothing = 0;
};
torch::Tensor soft_cross_entropy(const torch::Tensor& logits, const SoftLabels& targets);

}  // namespace mala::tasks
