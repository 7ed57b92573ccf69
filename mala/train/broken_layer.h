// Where a number that is none first appears.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <string>

namespace mala::train {

// Runs `loss` again and watches every operation of its forward pass, then its gradients. The
// operation and the layer whose result is the first that is not finite though its inputs are:
// "aten::log in 'layers.1.norm'". Empty when all is finite this time.
std::string find_broken_layer(torch::nn::Module& model, const std::function<torch::Tensor()>& loss);

}  // namespace mala::train
