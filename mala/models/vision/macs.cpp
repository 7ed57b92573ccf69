// Counts multiply-adds layer by layer.
#include "mala/models/vision/macs.h"

namespace mala::models {
namespace {

nn::GridSize halved(nn::GridSize size) { return {(size.height + 1) / 2, (size.width + 1) / 2}; }

int64_t attention_macs(nn::Mixer mixer, int64_t dim, int64_t heads, int64_t tokens) {
  if (mixer == nn::Mixer::kSoftmax) return 2 * tokens * tokens * dim;
  // The state, its products with queries, and the magnitudes of these.
  return tokens * dim * (2 * (dim / heads) + 1);
}

int64_t block_macs(const MavitStage& stage, int64_t hidden, int64_t tokens) {
  const int64_t projections = 5 * stage.dim * stage.dim + 2 * hidden * stage.dim;
  const int64_t depthwise = (9 + 25) * stage.dim + 9 * hidden;
  return tokens * (projections + depthwise) +
         attention_macs(stage.mixer, stage.dim, stage.heads, tokens);
}

}  // namespace

int64_t count_macs(const MavitConfig& config, nn::GridSize picture) {
  const int64_t half = config.stages[0].dim / 2;
  nn::GridSize size = halved(picture);
  int64_t macs = size.tokens() * 9 * half * (3 + 2 * half);
  if (config.stem_stride == 4) size = halved(size);
  macs += size.tokens() * 9 * half * config.stages[0].dim;
  for (size_t i = 0; i < config.stages.size(); ++i) {
    const MavitStage& stage = config.stages[i];
    const auto hidden = static_cast<int64_t>(config.mlp_ratio * static_cast<double>(stage.dim));
    macs += stage.depth * block_macs(stage, hidden, size.tokens());
    if (i + 1 == config.stages.size()) break;
    size = halved(size);
    macs += size.tokens() * 9 * stage.dim * config.stages[i + 1].dim;
  }
  return macs + config.projection * (size.tokens() * config.stages.back().dim + config.classes);
}

int64_t count_macs(const DeitConfig& config, nn::GridSize picture) {
  const int64_t dim = config.dim;
  const int64_t patches = (picture.height / config.patch) * (picture.width / config.patch);
  const int64_t tokens = 1 + patches;
  const int64_t projections = (3 + 1 + 4 + 4) * dim * dim;
  const int64_t block =
      tokens * projections + attention_macs(config.mixer, dim, config.heads, tokens);
  return patches * 3 * config.patch * config.patch * dim + config.depth * block +
         dim * config.classes;
}

}  // namespace mala::models
