// All models for pictures that have a name, and what there is to know of each.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "mala/models/vision/config.h"
#include "mala/models/vision/deit.h"

namespace mala::models {

using VisionConfig = std::variant<MavitConfig, DeitConfig>;

// Smallest first, MAViT before DeiT.
std::vector<std::string> vision_names();

// Why there is no model of that name: the nearest one, and all.
std::string describe_unknown_model(std::string_view name);

// Throws mala::Error that says so for any other name.
VisionConfig vision_config(std::string_view name);

// The same with other mixers; DeiT takes one word, MAViT one or four with commas between them.
VisionConfig with_mixers(VisionConfig config, std::string_view words);
VisionConfig with_classes(VisionConfig config, int64_t classes);

const std::string& name_of(const VisionConfig& config);
// "mala,mala,softmax,softmax": what with_mixers takes.
std::string mixers_of(const VisionConfig& config);
int64_t classes_of(const VisionConfig& config);

// Pixels on a side of the pictures that the model is for.
int64_t image_size_of(const VisionConfig& config);

}  // namespace mala::models
