// How weights lie in memory.
#pragma once

#include <torch/nn/module.h>

namespace mala::models {

// Lays the weights of all convolutions out as the models' images are, pixel after pixel.
void lay_channels_last(torch::nn::Module& model);

}  // namespace mala::models
