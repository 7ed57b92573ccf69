// Loaded models as functions from batches to probabilities.
#include "mala/tasks/classify.h"

#include <torch/torch.h>

#include <cmath>
#include <memory>

#include "mala/core/error.h"
#include "mala/models/vision/mavit_inference.h"

namespace mala::tasks {
namespace {

using Forward = std::function<at::Tensor(const at::Tensor&)>;

Forward forward_of(models::Mavit model) {
  auto folded = std::make_shared<models::MavitInference>(*model);
  return [folded](const at::Tensor& images) { return folded->forward(images); };
}

Forward forward_of(models::Deit model) {
  return [model](const at::Tensor& images) mutable {
    const c10::InferenceMode inference;
    return model->forward(images);
  };
}

Forward make_forward(const models::LoadedVision& loaded, const Placement& placement) {
  return std::visit(
      [&](auto model) {
        model->eval();
        model->to(placement.device, placement.dtype);
        return forward_of(model);
      },
      loaded.model);
}

data::Normalization normalization_of(const models::Card& card) {
  data::Normalization normalization;
  for (size_t c = 0; c < card.mean.size(); ++c) {
    normalization.mean[c] = static_cast<float>(card.mean[c]);
    normalization.deviation[c] = static_cast<float>(card.deviation[c]);
  }
  return normalization;
}

}  // namespace

Classifier::Classifier(const models::LoadedVision& loaded, const Placement& placement)
    : card_(loaded.card),
      classes_(classes_of(loaded.config)),
      placement_(placement),
      forward_(make_forward(loaded, placement)) {}

void Classifier::set_labels(std::vector<std::string> labels, const std::string& name) {
  check(std::ssize(labels) == classes_, "classify", name, " has ", labels.size(),
        " labels, the model has ", classes_, " classes; give one label for each");
  card_.labels = std::move(labels);
}

std::string Classifier::label(int64_t index) const {
  return card_.labels.empty() ? "" : card_.labels[static_cast<size_t>(index)];
}

data::BatchOptions view_of(const models::Card& card, int64_t batch_size) {
  const auto side = static_cast<double>(card.image_size);
  data::BatchOptions options;
  options.batch_size = batch_size;
  options.image_size = card.image_size;
  options.shuffle = false;
  options.drop_last = false;
  options.short_side = std::lround(side / card.crop);
  options.normalization = normalization_of(card);
  options.replace_broken = false;
  return options;
}

at::Tensor Classifier::probabilities(const data::ImageBatch& batch) const {
  const c10::InferenceMode inference;
  // torch wants a pointer that may be written through, and does not.
  auto* pixels = const_cast<float*>(batch.pixels.data());
  const at::Tensor images = torch::from_blob(pixels, {batch.count, batch.size, batch.size, 3});
  const at::Tensor placed = images.to(placement_.device, placement_.dtype).permute({0, 3, 1, 2});
  at::Tensor found = torch::softmax(forward_(placed).to(torch::kFloat), 1).cpu();
  const auto wrong = torch::isnan(found).any(1).sum().item<int64_t>();
  check(
      wrong == 0, "classify", "the model gives no number for ", wrong, " of ", batch.count,
      " pictures; its weights may hold NaN or infinity: take the file again, or, if they are right,"
      " try float32");
  return found;
}

std::vector<std::vector<Prediction>> best_of(const at::Tensor& probabilities, int64_t count) {
  const int64_t pictures = probabilities.size(0);
  const auto [values, indices] =
      probabilities.topk(std::min(count, probabilities.size(1)), 1, true, true);
  const auto value = values.accessor<float, 2>();
  const auto index = indices.accessor<int64_t, 2>();
  std::vector<std::vector<Prediction>> all(static_cast<size_t>(pictures));
  for (int64_t i = 0; i < pictures; ++i) {
    for (int64_t j = 0; j < values.size(1); ++j) {
      all[static_cast<size_t>(i)].push_back({index[i][j], value[i][j]});
    }
  }
  return all;
}

}  // namespace mala::tasks
