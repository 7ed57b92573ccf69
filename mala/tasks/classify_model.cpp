// From settings to a model.
#include "mala/tasks/classify_model.h"

#include "mala/core/error.h"
#include "mala/models/fine_tune.h"
#include "mala/models/vision/load.h"
#include "mala/models/vision/resnet.h"

namespace mala::tasks {
namespace {

using models::Card;
using models::DeitConfig;
using models::MavitConfig;
using torch::Tensor;

constexpr const char* kResnet = "resnet20";
constexpr int64_t kSmallPictures = 32;

void adapt(MavitConfig& config, const ClassifyConfig::Model& wanted) {
  check(wanted.patch == 0, "train", "model.patch is of plain ViTs, ", config.name, " has none");
  if (wanted.drop_path >= 0) config.drop_path = wanted.drop_path;
}

void adapt(DeitConfig& config, const ClassifyConfig::Model& wanted) {
  if (wanted.drop_path >= 0) config.drop_path = wanted.drop_path;
  const int64_t patch = wanted.patch > 0 ? wanted.patch : config.patch;
  const int64_t size = wanted.image_size > 0 ? wanted.image_size : config.patch * config.grid;
  check(size % patch == 0, "train", "pictures of ", size, " pixels do not split into patches of ",
        patch, "; change model.image_size or model.patch");
  if (patch == config.patch && size == patch * config.grid) return;
  config.patch = patch;
  config.grid = size / patch;
  config.name = "deit";  // no longer the one that is known by its name: shapes tell
}

models::VisionConfig config_of(const ClassifyConfig::Model& wanted, int64_t classes) {
  models::VisionConfig config = wanted.name.empty()
                                    ? models::load_vision({.weights = wanted.init}).config
                                    : models::vision_config(wanted.name);
  if (!wanted.mixers.empty()) config = models::with_mixers(config, wanted.mixers);
  std::visit([&](auto& c) { adapt(c, wanted); }, config);
  return models::with_classes(config, classes);
}

Card card_of(const models::VisionConfig& config, const ClassifyConfig& settings) {
  Card card;
  if (!settings.model.init.empty()) {
    card = models::load_vision({.weights = settings.model.init}).card;
    card.labels.clear();
  }
  card.model = name_of(config);
  card.mixers = mixers_of(config);
  if (settings.model.image_size > 0) card.image_size = settings.model.image_size;
  if (card.image_size == 0) card.image_size = image_size_of(config);
  return card;
}

TrainableClassifier made_of(models::Mavit model) {
  const auto recompute = [model]() mutable {
    for (models::Stage& stage : model->layers) stage->keeps_activations = false;
  };
  return {.module = model.ptr(),
          .forward = [model](const Tensor& x) mutable { return model->forward(x); },
          .card = {},
          .recompute_activations = recompute};
}

TrainableClassifier made_of(models::Deit model) {
  return {.module = model.ptr(),
          .forward = [model](const Tensor& x) mutable { return model->forward(x); },
          .card = {},
          .recompute_activations = [model]() mutable { model->keeps_activations = false; }};
}

TrainableClassifier make_resnet(const ClassifyConfig& settings, int64_t classes) {
  check(settings.model.mixers.empty() && settings.model.patch == 0, "train", kResnet,
        " has neither mixers nor patches; leave model.mixers and model.patch empty");
  models::Resnet model(models::ResnetConfig{.classes = classes});
  Card card;
  card.model = kResnet;
  card.image_size = settings.model.image_size > 0 ? settings.model.image_size : kSmallPictures;
  return {.module = model.ptr(),
          .forward = [model](const Tensor& x) mutable { return model->forward(x); },
          .card = card,
          .recompute_activations = {}};
}

TrainableClassifier make_vision(const ClassifyConfig& settings, int64_t classes) {
  const models::VisionConfig config = config_of(settings.model, classes);
  TrainableClassifier made = std::holds_alternative<MavitConfig>(config)
                                 ? made_of(models::Mavit(std::get<MavitConfig>(config)))
                                 : made_of(models::Deit(std::get<DeitConfig>(config)));
  made.card = card_of(config, settings);
  return made;
}

void set_normalization(Card& card, const std::string& word) {
  const auto set = [&](std::array<double, 3> mean, std::array<double, 3> deviation) {
    card.mean = mean;
    card.deviation = deviation;
  };
  if (word == "imagenet") {
    set({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225});
  } else if (word == "cifar10") {
    set({0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616});
  } else if (word == "half") {
    set({0.5, 0.5, 0.5}, {0.5, 0.5, 0.5});
  } else {
    check(word == "auto", "train", "data.normalization is '", word,
          "'; use auto, imagenet, cifar10 or half");
  }
}

}  // namespace

TrainableClassifier make_trainable(const ClassifyConfig& config, int64_t classes, int64_t seed) {
  check(!config.model.name.empty() || !config.model.init.empty(), "train",
        "neither model.name nor model.init says which model to train; `mala models` lists names");
  torch::manual_seed(static_cast<uint64_t>(seed));
  TrainableClassifier made =
      config.model.name == kResnet ? make_resnet(config, classes) : make_vision(config, classes);
  set_normalization(made.card, config.data.normalization);
  check(config.data.crop > 0 && config.data.crop <= 1, "train", "data.crop is ", config.data.crop,
        "; needs more than 0 and at most 1");
  made.card.crop = config.data.crop;
  if (!config.model.init.empty()) models::load_all_but_other_head(*made.module, config.model.init);
  return made;
}

void share_statistics(TrainableClassifier& classifier, const SumOverProcesses& sum) {
  nn::share_statistics(*classifier.module, sum);
}

}  // namespace mala::tasks
