// Counts parameters layer by layer, biases included.
#include "mala/models/vision/size.h"

namespace mala::models {
namespace {

// `from` is what one channel of the result sees.
int64_t conv(int64_t from, int64_t to, int64_t side) { return to * (from * side * side + 1); }
int64_t dense(int64_t from, int64_t to) { return conv(from, to, 1); }
int64_t depthwise(int64_t dim, int64_t side) { return conv(1, dim, side); }
int64_t norm(int64_t dim) { return 2 * dim; }

int64_t mavit_block(int64_t dim, int64_t hidden) {
  const int64_t scales = 2 * dim;
  const int64_t attention = dense(dim, 4 * dim) + depthwise(dim, 5) + dense(dim, dim);
  const int64_t ffn = dense(dim, hidden) + depthwise(hidden, 3) + dense(hidden, dim);
  return depthwise(dim, 3) + 2 * norm(dim) + attention + ffn + scales;
}

int64_t mavit_stem(int64_t dim) {
  const int64_t half = dim / 2;
  return conv(3, half, 3) + 2 * conv(half, half, 3) + 3 * norm(half) + conv(half, dim, 3) +
         norm(dim);
}

}  // namespace

int64_t count_parameters(const MavitConfig& config) {
  int64_t count = mavit_stem(config.stages[0].dim);
  for (size_t i = 0; i < config.stages.size(); ++i) {
    const MavitStage& stage = config.stages[i];
    const auto hidden = static_cast<int64_t>(config.mlp_ratio * static_cast<double>(stage.dim));
    count += stage.depth * mavit_block(stage.dim, hidden);
    if (i + 1 == config.stages.size()) break;
    const int64_t next = config.stages[i + 1].dim;
    count += conv(stage.dim, next, 3) + norm(next);
  }
  return count + dense(config.stages.back().dim, config.projection) + norm(config.projection) +
         dense(config.projection, config.classes);
}

int64_t count_parameters(const DeitConfig& config) {
  const int64_t dim = config.dim, tokens = 1 + config.grid * config.grid;
  const int64_t attention = dense(dim, 3 * dim) + dense(dim, dim);
  const int64_t ffn = dense(dim, 4 * dim) + dense(4 * dim, dim);
  const int64_t block = 2 * norm(dim) + attention + ffn;
  return dim + tokens * dim + conv(3, dim, config.patch) + config.depth * block + norm(dim) +
         dense(dim, config.classes);
}

}  // namespace mala::models
