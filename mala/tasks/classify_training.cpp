// Batches of pictures to a loss, and a model to its accuracy.
#include "mala/tasks/classify_training.h"

#include <torch/torch.h>

#include <cmath>

#include "mala/core/error.h"
#include "mala/data/dataset/open.h"
#include "mala/models/weights.h"

namespace mala::tasks {
namespace {

using torch::Tensor;

std::unique_ptr<data::ImageSource> open(const ClassifyConfig& config, const std::string& path,
                                        const std::vector<std::string>& classes) {
  return data::open_images(
      path, {.classes = classes, .cache_bytes = config.data.cache_megabytes * 1'000'000});
}

// To the device without waiting for it: a GPU reads from memory that stays in its place.
Tensor send(const Tensor& tensor, torch::Device device) {
  return device.is_cuda() ? tensor.pin_memory().to(device, /*non_blocking=*/true) : tensor;
}

template <typename Numbers>
Tensor row_of(const Numbers& numbers, torch::Device device) {
  using Number = typename Numbers::value_type;
  auto* first = const_cast<Number*>(numbers.data());  // torch does not write through it
  const auto type = c10::CppTypeToScalarType<Number>::value;
  return send(torch::from_blob(first, {std::ssize(numbers)}, type), device);
}

struct Batch {
  Tensor images;  // (B, 3, H, W), pixel after pixel
  SoftLabels targets;
};

// Copies, as the batch goes and the tensors may be used for longer.
Batch batch_on(const data::ImageBatch& batch, torch::Device device) {
  const auto own = [&](const Tensor& tensor) { return device.is_cuda() ? tensor : tensor.clone(); };
  const Tensor pixels = own(row_of(batch.pixels, device));
  return {.images = pixels.view({batch.count, batch.size, batch.size, 3}).permute({0, 3, 1, 2}),
          .targets = {.labels = own(row_of(batch.labels, device)),
                      .others = own(row_of(batch.other_labels, device)),
                      .share = own(row_of(batch.share, device))}};
}

std::vector<std::string> names_of(const torch::nn::Module& model) {
  std::vector<std::string> names;
  for (const auto& item : model.named_parameters()) names.push_back(item.key());
  return names;
}

}  // namespace

Tensor soft_cross_entropy(const Tensor& logits, const SoftLabels& targets) {
  const Tensor logs = torch::log_softmax(logits.to(torch::kFloat32), 1);
  const auto of = [&](const Tensor& labels) {
    return logs.gather(1, labels.unsqueeze(1)).squeeze(1);
  };
  const Tensor mixed =
      targets.share * of(targets.labels) + (1 - targets.share) * of(targets.others);
  return -((1 - targets.smoothing) * mixed + targets.smoothing * logs.mean(1)).mean();
}

ClassifyTraining::ClassifyTraining(const ClassifyConfig& config, int64_t seed, Shard shard)
    : config_(config), seed_(static_cast<uint64_t>(seed)), shard_(shard) {
  check(!config.data.train.empty(), "train",
        "data.train is empty; name a folder of pictures with a",
        " folder for each class, a list, or tar shards");
  check(config.label_smoothing >= 0 && config.label_smoothing < 1, "train",
        "loss.label_smoothing is ", config.label_smoothing, "; needs 0 or more and less than 1");
  check(config.data.batch > 0 && config.data.evaluation_batch > 0 && config.data.repeats > 0 &&
            config.data.workers >= 0 && config.data.cache_megabytes >= 0,
        "train", "data.batch, data.evaluation_batch and data.repeats must be 1 or more,",
        " data.workers and data.cache_megabytes 0 or more");
  data::check_augmentation(config.augment);
  train_ = open(config, config.data.train, {});
  if (!config.data.evaluate.empty()) {
    evaluate_ = open(config, config.data.evaluate, train_->classes());
  }
  classifier_ = make_trainable(config, std::ssize(train_->classes()), seed);
  classifier_.card.labels = train_->classes();
  depths_ = layer_depths(names_of(*classifier_.module));
}

data::BatchOptions ClassifyTraining::view() const {
  const models::Card& card = classifier_.card;
  data::BatchOptions options;
  options.image_size = card.image_size;
  options.short_side = std::lround(static_cast<double>(card.image_size) / card.crop);
  for (size_t c = 0; c < card.mean.size(); ++c) {
    options.normalization.mean[c] = static_cast<float>(card.mean[c]);
    options.normalization.deviation[c] = static_cast<float>(card.deviation[c]);
  }
  options.rank = shard_.rank;
  options.world = shard_.world;
  options.workers = config_.data.workers;
  return options;
}

data::BatchOptions ClassifyTraining::training_view(Place place) const {
  data::BatchOptions options = view();
  options.batch_size = config_.data.batch;
  options.seed = seed_;
  options.epoch = place.epoch;
  options.start_batch = place.batch;
  options.repeats = config_.data.repeats;
  options.augmentation = config_.augment;
  return options;
}

int64_t ClassifyTraining::batches_per_epoch() const {
  return data::count_batches(train_->size(), training_view({}));
}

void ClassifyTraining::seek(Place place) {
  const bool is_there = batches_ && place.epoch == place_.epoch && place.batch == place_.batch;
  if (is_there) return;
  batches_.reset();  // its threads end before others begin
  batches_ = std::make_unique<data::ImageBatches>(*train_, training_view(place));
  place_ = place;
}

Tensor ClassifyTraining::loss(torch::Device device) {
  if (!batches_) seek({});
  const std::optional<data::ImageBatch> batch = batches_->next();
  check(batch.has_value(), "train", "epoch ", place_.epoch, " has no batch ", place_.batch);
  note(batch->skipped);
  ++place_.batch;
  // The next epoch's pictures are made while this one's last batch is learned.
  if (place_.batch == batches_->count()) seek({place_.epoch + 1, 0});
  Batch sent = batch_on(*batch, device);
  sent.targets.smoothing = config_.label_smoothing;
  return soft_cross_entropy(classifier_.forward(sent.images), sent.targets);
}

Tensor ClassifyTraining::made_up_loss(int64_t examples, torch::Device device) {
  const int64_t size = classifier_.card.image_size;
  const Tensor pixels = torch::rand({examples, size, size, 3}, device);
  const auto classes = static_cast<int64_t>(train_->classes().size());
  const Tensor labels =
      torch::randint(classes, {examples}, torch::dtype(torch::kInt64).device(device));
  return soft_cross_entropy(classifier_.forward(pixels.permute({0, 3, 1, 2})),
                            {.labels = labels,
                             .others = labels,
                             .share = torch::ones({examples}, device),
                             .smoothing = config_.label_smoothing});
}

std::vector<Total> ClassifyTraining::evaluate(torch::Device device) {
  if (!evaluate_) return {};
  data::BatchOptions options = view();
  options.batch_size = std::min(config_.data.evaluation_batch, evaluate_->size());
  options.shuffle = false;
  options.drop_last = false;
  options.replace_broken = false;
  data::ImageBatches batches(*evaluate_, options);
  constexpr int64_t kFive = 5;
  const bool has_five = std::ssize(train_->classes()) > kFive;
  Tensor sums = torch::zeros({3}, torch::dtype(torch::kFloat64).device(device));
  double count = 0;
  while (const auto batch = batches.next()) {
    note(batch->skipped);
    if (batch->count == 0) continue;
    const Batch sent = batch_on(*batch, device);
    const Tensor logits = classifier_.forward(sent.images).to(torch::kFloat32);
    const Tensor best = std::get<1>(logits.topk(has_five ? kFive : 1, 1));
    const Tensor hits = best == sent.targets.labels.unsqueeze(1);
    sums += torch::stack(
        {hits.select(1, 0).sum(), hits.sum(),
         torch::nn::functional::cross_entropy(
             logits, sent.targets.labels,
             torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))});
    count += static_cast<double>(batch->count);
  }
  sums = sums.cpu();
  std::vector<Total> totals{{"top1", sums[0].item<double>(), count},
                            {"top5", sums[1].item<double>(), count},
                            {"loss", sums[2].item<double>(), count}};
  if (!has_five) totals.erase(totals.begin() + 1);
  return totals;
}

bool ClassifyTraining::checkpoint_activations() {
  if (!classifier_.recompute_activations) return false;
  classifier_.recompute_activations();
  return true;
}

void ClassifyTraining::share_statistics(const SumOverProcesses& sum) {
  tasks::share_statistics(classifier_, sum);
}

void ClassifyTraining::export_model(const std::string& path,
                                    const std::map<std::string, std::string>& facts) {
  models::Metadata metadata = metadata_of(classifier_.card);
  for (const auto& [key, value] : facts) metadata["training." + key] = value;
  models::save_weights(*classifier_.module, path, metadata);
}

void ClassifyTraining::note(const std::vector<data::BadFile>& skipped) {
  for (const data::BadFile& bad : skipped) {
    if (!bad_files_.insert(bad.name).second) continue;
    notices_.push_back(str("skipped picture ", bad_files_.size(), ": ", bad.reason));
  }
}

std::vector<std::string> ClassifyTraining::take_notices() { return std::exchange(notices_, {}); }

}  // namespace mala::tasks
