// Counts multiply-adds layer by layer.
#include "mala/models/vision/macs.h"

namespace mala::models {
namespace {

nn::GridSize halved(nn::GridSize size) { return {(size.height + 1) / 2, (size.width + 1) / 2}; }

int64_t attention_macs(const MavitStage& stage, int64_t tokens) {
  if (stage.mixer == nn::Mixer::kSoftmax) return 2 * tokens * tokens * stage.dim;
  // The state, its products with queries, and the magnitudes of these.
  return tokens * stage.dim * (2 * (stage.dim / stage.heads) + 1);
}

int64_t block_macs(const MavitStage& stage, int64_t hidden, int64_t tokens) {
  const int64_t projections = 5 * stage.dim * stage.dim + 2 * hidden * stage.dim;
  const int64_t depthwise = (9 + 25) * stage.dim + 9 * hidden;
  return tokens * (projections + depthwise) + attention_macs(stage, tokens);
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

}  // namespace mala::models
