// One fused kernel averages all weights.
#include "mala/train/averaged.h"

#include <ATen/ops/_foreach_lerp.h>

namespace mala::train {

using torch::Tensor;

AveragedWeights::AveragedWeights(const torch::nn::Module& model) {
  const auto add = [&](const auto& items) {
    for (const auto& item : items) {
      const Tensor live = item.value();
      pairs_.push_back({item.key(), live, live.detach().clone()});
      if (!live.is_floating_point()) continue;
      live_.push_back(live);
      averages_.push_back(pairs_.back().average);
    }
  };
  add(model.named_parameters());
  add(model.named_buffers());
}

void AveragedWeights::update(double decay) {
  const torch::NoGradGuard no_gradients;
  at::_foreach_lerp_(averages_, live_, 1 - decay);
  for (Pair& pair : pairs_) {
    if (!pair.live.is_floating_point()) pair.average.copy_(pair.live);
  }
}

void AveragedWeights::swap() {
  const torch::NoGradGuard no_gradients;
  for (Pair& pair : pairs_) {
    const Tensor other = pair.live.detach().clone();
    pair.live.copy_(pair.average);
    pair.average.copy_(other);
  }
}

void AveragedWeights::visit_state(const Visit& visit) {
  for (Pair& pair : pairs_) visit(pair.name, pair.average);
}

}  // namespace mala::train
