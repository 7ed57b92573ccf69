// What weights begin with, by the kind of layer. Norms are made right by torch.
#include "mala/models/initialize.h"

#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace mala::models {
namespace {

template <typename Layer>
bool initialize_as(torch::nn::Module& module) {
  auto* layer = module.as<Layer>();
  if (!layer) return false;
  torch::nn::init::normal_(layer->weight, 0, 0.02);
  if (layer->bias.defined()) torch::nn::init::zeros_(layer->bias);
  return true;
}

}  // namespace

void initialize(torch::nn::Module& model) {
  model.apply([](torch::nn::Module& module) {
    initialize_as<torch::nn::Conv2dImpl>(module) || initialize_as<torch::nn::LinearImpl>(module);
  });
}

}  // namespace mala::models
