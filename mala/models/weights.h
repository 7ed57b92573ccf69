// Weights between files and models.
#pragma once

#include <torch/nn/module.h>

#include <string>

#include "mala/io/pth.h"
#include "mala/models/card.h"

namespace mala::models {

// Reads a file of any kind that mala/io knows into the model, whatever number types either has.
// Throws mala::Error, before anything is changed, that names the first arrays that are missing,
// unexpected or of another shape.
void load_weights(torch::nn::Module& model, const std::string& path,
                  io::Copy copy = io::Copy::kTrained);
void load_weights(torch::nn::Module& model, const io::Weights& weights, const std::string& path);

// Writes parameters and buffers as safetensors, with metadata such as metadata_of(card).
void save_weights(const torch::nn::Module& model, const std::string& path,
                  const Metadata& metadata = {});

}  // namespace mala::models
