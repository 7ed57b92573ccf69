// Classification: a model for pictures at its place, and the answers it gives.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "mala/data/batches.h"
#include "mala/models/card.h"
#include "mala/models/vision/load.h"
#include "mala/tasks/placement.h"

namespace mala::tasks {

struct Prediction {
  int64_t index = 0;       // of the class
  double probability = 0;  // softmax over all classes
};

// What data::ImageBatches must be told to show pictures as a model of this card saw them in
// training.
data::BatchOptions view_of(const models::Card& card, int64_t batch_size);

class Classifier {
 public:
  // MAViT is folded for inference; the loaded model is not needed afterwards.
  Classifier(const models::LoadedVision& loaded, const Placement& placement);

  // Takes other labels than those of the file. Throws mala::Error, which calls them `name`, when
  // they are not as many as the classes.
  void set_labels(std::vector<std::string> labels, const std::string& name);
  // Pixels on a side that the model sees from now on.
  void set_image_size(int64_t size) { card_.image_size = size; }

  const models::Card& card() const { return card_; }
  int64_t classes() const { return classes_; }
  // Empty where the class has no name.
  std::string label(int64_t index) const;

  data::BatchOptions view(int64_t batch_size) const { return view_of(card_, batch_size); }

  // (B, 3, H, W), normalised, of the type and on the device that this was made for -> (B, classes).
  at::Tensor logits(const at::Tensor& images) const { return forward_(images); }

  // (count, classes), float32 on the CPU.
  at::Tensor probabilities(const data::ImageBatch& batch) const;

 private:
  models::Card card_;
  int64_t classes_;
  Placement placement_;
  std::function<at::Tensor(const at::Tensor&)> forward_;  // (B, 3, H, W) -> (B, classes)
};

// The most probable classes for every picture of (count, classes), best first: as many as asked, or
// all where there are fewer.
std::vector<std::vector<Prediction>> best_of(const at::Tensor& probabilities, int64_t count);

}  // namespace mala::tasks
