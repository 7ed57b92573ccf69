// The published sizes. Early stages have many tokens and attend linearly; late ones have few.
#include "mala/models/vision/config.h"

#include <algorithm>
#include <vector>

#include "mala/core/error.h"

namespace mala::models {
namespace {

using enum nn::Mixer;

const std::array<MavitConfig, 5> kConfigs{{
    {.name = "mavit_n",
     .stages = {{{.dim = 64, .depth = 2, .heads = 2},
                 {.dim = 96, .depth = 3, .heads = 3},
                 {.dim = 128, .depth = 3, .heads = 4},
                 {.dim = 160, .depth = 1, .heads = 5}}},
     .projection = 512,
     .classes = 10,
     .stem_stride = 2},
    {.name = "mavit_t",
     .stages = {{{.dim = 64, .depth = 2, .heads = 1, .mixer = kMala},
                 {.dim = 128, .depth = 2, .heads = 2, .mixer = kMala},
                 {.dim = 256, .depth = 6, .heads = 4, .mixer = kSoftmax},
                 {.dim = 512, .depth = 2, .heads = 8, .mixer = kSoftmax}}},
     .drop_path = 0.1},
    {.name = "mavit_s",
     .stages = {{{.dim = 64, .depth = 3, .heads = 1, .mixer = kMala},
                 {.dim = 128, .depth = 5, .heads = 2, .mixer = kMala},
                 {.dim = 320, .depth = 9, .heads = 5, .mixer = kSoftmax},
                 {.dim = 512, .depth = 3, .heads = 8, .mixer = kSoftmax}}},
     .drop_path = 0.15},
    {.name = "mavit_b",
     .stages = {{{.dim = 96, .depth = 4, .heads = 1, .mixer = kMala},
                 {.dim = 192, .depth = 6, .heads = 2, .mixer = kMala},
                 {.dim = 384, .depth = 12, .heads = 6, .mixer = kSoftmax, .layer_scale = 1e-6},
                 {.dim = 512, .depth = 6, .heads = 8, .mixer = kSoftmax, .layer_scale = 1e-6}}},
     .drop_path = 0.4},
    {.name = "mavit_l",
     .stages = {{{.dim = 96, .depth = 4, .heads = 1, .mixer = kMala, .layer_scale = 1e-6},
                 {.dim = 192, .depth = 7, .heads = 2, .mixer = kMala, .layer_scale = 1e-6},
                 {.dim = 448, .depth = 19, .heads = 7, .mixer = kSoftmax, .layer_scale = 1e-6},
                 {.dim = 640, .depth = 8, .heads = 10, .mixer = kSoftmax, .layer_scale = 1e-6}}},
     .drop_path = 0.55,
     .projection = 2560},
}};

std::vector<std::string_view> split_at_commas(std::string_view words) {
  std::vector<std::string_view> parts;
  for (size_t start = 0; start <= words.size();) {
    const size_t end = std::min(words.find(',', start), words.size());
    parts.push_back(words.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

}  // namespace

std::span<const MavitConfig> mavit_configs() { return kConfigs; }

const MavitConfig& mavit_config(std::string_view name) {
  std::string names;
  for (const MavitConfig& config : kConfigs) {
    if (config.name == name) return config;
    names += (names.empty() ? "" : ", ") + config.name;
  }
  throw Error(str("[mavit_config] no model '", name, "'; there are ", names));
}

MavitConfig with_mixers(MavitConfig config, std::string_view words) {
  const std::vector<std::string_view> parts = split_at_commas(words);
  check(parts.size() == 1 || parts.size() == config.stages.size(), "with_mixers", "'", words,
        "' names ", parts.size(), " mixers; give one for all stages, or one for each of the ",
        config.stages.size(), ", such as mala,mala,softmax,softmax");
  for (size_t i = 0; i < config.stages.size(); ++i) {
    config.stages[i].mixer = nn::mixer_named(parts.size() == 1 ? parts[0] : parts[i]);
  }
  return config;
}

}  // namespace mala::models
