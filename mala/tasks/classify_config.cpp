// The list of settings of training a classifier.
#include "mala/tasks/classify_config.h"

namespace mala::tasks {

Fields fields_of(ClassifyConfig& c) {
  Fields fields{
      {"model.name", &c.model.name, "as `mala models` lists them, or resnet20; empty: init's"},
      {"model.mixers", &c.model.mixers, "mala, softmax, linear or inline, for all stages or each"},
      {"model.drop_path", &c.model.drop_path, "of the last block; below 0: the model's own"},
      {"model.image_size", &c.model.image_size, "pixels on a side; 0: the model's own"},
      {"model.patch", &c.model.patch, "of a plain ViT; 0: the model's own"},
      {"model.init", &c.model.init, "file of weights to begin with"},
      {"data.train", &c.data.train, "folder, list or tar shards to learn from"},
      {"data.evaluate", &c.data.evaluate, "the same to evaluate with; empty: none"},
      {"data.batch", &c.data.batch, "pictures of each process and batch"},
      {"data.evaluation_batch", &c.data.evaluation_batch, "the same in evaluation"},
      {"data.repeats", &c.data.repeats, "views of a picture that lie together in an epoch"},
      {"data.workers", &c.data.workers, "threads that make batches; 0: one a core"},
      {"data.cache_megabytes", &c.data.cache_megabytes, "of decoded pictures that stay in memory"},
      {"data.crop", &c.data.crop, "part of the short side that evaluation sees"},
      {"data.normalization", &c.data.normalization, "auto, imagenet, cifar10 or half"},
      {"loss.label_smoothing", &c.label_smoothing, "share of every label that all classes get"}};
  data::visit_fields(c.augment, [&](const char* name, auto& value, const char* help) {
    fields.push_back({std::string("augment.") + name, &value, help});
  });
  return fields;
}

}  // namespace mala::tasks
