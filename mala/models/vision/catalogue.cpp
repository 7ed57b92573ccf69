// Whatever differs between MAViT and DeiT is asked of their own configurations.
#include "mala/models/vision/catalogue.h"

#include "mala/core/error.h"
#include "mala/core/nearest.h"
#include "mala/core/source.h"

namespace mala::models {
namespace {

constexpr int64_t kSmallPictures = 32, kPictures = 224;

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

MavitConfig mixed(const MavitConfig& config, std::string_view words) {
  return with_mixers(config, words);
}

DeitConfig mixed(DeitConfig config, std::string_view word) {
  config.mixer = nn::mixer_named(word);
  return config;
}

std::string mixers(const MavitConfig& config) {
  std::string words;
  for (const MavitStage& stage : config.stages) {
    words += str(words.empty() ? "" : ",", nn::word_for(stage.mixer));
  }
  return words;
}

std::string mixers(const DeitConfig& config) { return std::string(nn::word_for(config.mixer)); }

int64_t image_size(const MavitConfig& config) {
  return config.stem_stride == 2 ? kSmallPictures : kPictures;
}

int64_t image_size(const DeitConfig& config) { return config.grid * config.patch; }

}  // namespace

std::vector<std::string> vision_names() {
  std::vector<std::string> names;
  for (const MavitConfig& config : mavit_configs()) names.push_back(config.name);
  for (const DeitConfig& config : deit_configs()) names.push_back(config.name);
  return names;
}

std::string describe_unknown_model(std::string_view name) {
  const std::vector<std::string> names = vision_names();
  const std::string hint = did_you_mean(name, names);
  return str("no model ", in_quotes(name), hint, hint.empty() ? "; there are " : " There are ",
             join(names));
}

VisionConfig vision_config(std::string_view name) {
  for (const MavitConfig& config : mavit_configs()) {
    if (config.name == name) return config;
  }
  for (const DeitConfig& config : deit_configs()) {
    if (config.name == name) return config;
  }
  throw Error("[vision_config] " + describe_unknown_model(name));
}

VisionConfig with_mixers(VisionConfig config, std::string_view words) {
  return std::visit([&](const auto& c) { return VisionConfig(mixed(c, words)); }, config);
}

VisionConfig with_classes(VisionConfig config, int64_t classes) {
  std::visit([&](auto& c) { c.classes = classes; }, config);
  return config;
}

const std::string& name_of(const VisionConfig& config) {
  return std::visit([](const auto& c) -> const std::string& { return c.name; }, config);
}

std::string mixers_of(const VisionConfig& config) {
  return std::visit([](const auto& c) { return mixers(c); }, config);
}

int64_t classes_of(const VisionConfig& config) {
  return std::visit([](const auto& c) { return c.classes; }, config);
}

int64_t image_size_of(const VisionConfig& config) {
  return std::visit([](const auto& c) { return image_size(c); }, config);
}

}  // namespace mala::models
