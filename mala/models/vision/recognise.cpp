// Reads sizes off the shapes. Whether all arrays fit is for load_weights to say; here it is enough
// that no shape leads to a model that cannot be made.
#include "mala/models/vision/recognise.h"

#include <algorithm>
#include <cmath>

namespace mala::models {
namespace {

// Above these no model is made: a file of a few bytes could ask for any number.
constexpr int64_t kMostChannels = 1 << 14, kMostBlocks = 1 << 10, kMostClasses = 1 << 20;

class Shapes {
 public:
  Shapes(const io::Weights& weights, const std::string& path)
      : weights_(weights), source_{"recognise", path} {}

  bool has(const std::string& name) const { return weights_.find(name) != nullptr; }

  // One size of an array, between 1 and `most`.
  int64_t size(const std::string& name, size_t dim, int64_t most) const {
    const io::Array* array = weights_.find(name);
    source_.check(array != nullptr, "has no '", name, "', so it is no complete model; ",
                  "name the model that it is for");
    source_.check(dim < array->shape.size() && array->shape[dim] > 0 && array->shape[dim] <= most,
                  "'", name, "' is of shape ", io::shape_text(array->shape),
                  ", which no model here has");
    return array->shape[dim];
  }

  // How many of prefix + "0" + suffix, prefix + "1" + suffix ... there are.
  int64_t count(const std::string& prefix, const std::string& suffix) const {
    int64_t found = 0;
    while (found < kMostBlocks && has(str(prefix, found, suffix))) ++found;
    return found;
  }

  template <typename... Parts>
  void check(bool ok, const Parts&... parts) const {
    source_.check(ok, parts...);
  }

 private:
  const io::Weights& weights_;
  Source source_;
};

constexpr const char* kMavitStem = "patch_embed.proj.0.weight";
constexpr const char* kDeitStem = "patch_embed.proj.weight";
constexpr const char* kHead = "head.weight";

MavitStage recognise_stage(const Shapes& shapes, int64_t number) {
  const std::string stage = str("layers.", number, ".");
  MavitStage found;
  found.dim = shapes.size(stage + "blocks.0.attn.proj.weight", 0, kMostChannels);
  found.depth = shapes.count(stage + "blocks.", ".attn.proj.weight");
  // Each angle turns a pair of channels of a head.
  found.heads = found.dim / (2 * shapes.size(stage + "RoPE.angle", 0, kMostChannels));
  return found;
}

MavitConfig recognise_mavit(const Shapes& shapes) {
  MavitConfig config = mavit_config("mavit_t");
  for (size_t i = 0; i < config.stages.size(); ++i) {
    const nn::Mixer released = config.stages[i].mixer;
    config.stages[i] = recognise_stage(shapes, static_cast<int64_t>(i));
    config.stages[i].mixer = released;
  }
  const int64_t hidden = shapes.size("layers.0.blocks.0.ffn.fc1.weight", 0, 64 * kMostChannels);
  // A hair more, so that the width times the ratio is not rounded below the hidden width.
  config.mlp_ratio =
      static_cast<double>(hidden) / static_cast<double>(config.stages[0].dim) * (1 + 1e-12);
  config.projection = shapes.size("proj.weight", 0, kMostChannels);
  config.classes = shapes.size(kHead, 0, kMostClasses);
  config.name = "mavit";
  return config;
}

bool same_stages(const MavitConfig& a, const MavitConfig& b) {
  return a.projection == b.projection &&
         std::equal(a.stages.begin(), a.stages.end(), b.stages.begin(),
                    [](const MavitStage& x, const MavitStage& y) {
                      return x.dim == y.dim && x.depth == y.depth && x.heads == y.heads;
                    });
}

MavitConfig known_or(const MavitConfig& found) {
  for (MavitConfig known : mavit_configs()) {
    if (!same_stages(known, found)) continue;
    known.classes = found.classes;
    return known;
  }
  return found;
}

DeitConfig recognise_deit(const Shapes& shapes) {
  constexpr int64_t kHeadWidth = 64;  // of all published sizes
  DeitConfig config{.name = "deit", .dim = shapes.size(kDeitStem, 0, kMostChannels)};
  config.heads = std::max<int64_t>(1, config.dim / kHeadWidth);
  config.depth = shapes.count("blocks.", ".attn.proj.weight");
  config.patch = shapes.size(kDeitStem, 2, kMostChannels);
  const int64_t tokens = shapes.size("pos_embed", 1, kMostClasses);
  config.grid = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(tokens - 1))));
  shapes.check(config.grid > 0 && config.grid * config.grid == tokens - 1, "'pos_embed' has ",
               tokens, " positions; needs one for the class and those of a square");
  config.classes = shapes.size(kHead, 0, kMostClasses);
  for (const DeitConfig& known : deit_configs()) {
    const bool same = known.dim == config.dim && known.depth == config.depth &&
                      known.patch == config.patch && known.grid == config.grid;
    if (same) config.name = known.name;
  }
  return config;
}

}  // namespace

VisionConfig recognise(const io::Weights& weights, const std::string& path) {
  const Shapes shapes(weights, path);
  if (shapes.has(kMavitStem)) return known_or(recognise_mavit(shapes));
  shapes.check(shapes.has(kDeitStem), "holds neither a MAViT ('", kMavitStem, "') nor a DeiT ('",
               kDeitStem, "'); it begins with ",
               weights.arrays.empty() ? "nothing" : in_quotes(weights.arrays.front().name));
  return recognise_deit(shapes);
}

int64_t count_classes(const io::Weights& weights) {
  const io::Array* head = weights.find(kHead);
  return head && !head->shape.empty() && head->shape[0] <= kMostClasses ? head->shape[0] : 0;
}

}  // namespace mala::models
