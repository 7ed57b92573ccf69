// Weights of a trained model as the beginning of another training.
#pragma once

#include <torch/nn/module.h>

#include <string>

namespace mala::models {

// As load_weights, but where the file's head ("head.*") is for another number of classes the model
// keeps its own. Whether the head was taken.
bool load_all_but_other_head(torch::nn::Module& model, const std::string& path);

}  // namespace mala::models
