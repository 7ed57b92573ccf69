// MAViT by name: widths, depths and what each stage attends with.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "mala/nn/mixer.h"

namespace mala::models {

struct MavitStage {
  int64_t dim = 0, depth = 0, heads = 0;
  nn::Mixer mixer = nn::Mixer::kMala;
  double layer_scale = 1;  // what the scales of a block's branches begin with
};

struct MavitConfig {
  std::string name;
  std::array<MavitStage, 4> stages;
  double mlp_ratio = 3.5;
  double drop_path = 0;       // of the last block in training; the others rise to it from 0
  int64_t projection = 2048;  // width between the last stage and the head
  int64_t classes = 1000;
  int64_t stem_stride = 4;  // 2 for pictures of 32 to 64 pixels
};

// mavit_t, mavit_s, mavit_b and mavit_l as published, and mavit_n for small pictures.
std::span<const MavitConfig> mavit_configs();

// Throws mala::Error that lists the names for any other.
const MavitConfig& mavit_config(std::string_view name);

// The same with other mixers: one word for all stages, or four with commas between them.
MavitConfig with_mixers(MavitConfig config, std::string_view words);

}  // namespace mala::models
