// One block of MAViT: position, attention, feed-forward, each added to what came in.
#pragma once

#include <torch/nn/modules/normalization.h>

#include "mala/nn/conv_ffn.h"
#include "mala/nn/grid_attention.h"

namespace mala::nn {

struct BlockOptions {
  int64_t dim = 0, heads = 0, hidden = 0;
  Mixer mixer = Mixer::kMala;
  double layer_scale = 1;  // what the scales of both branches begin with
  double drop_path = 0;    // the probability to leave a branch out in training
};

// A layer norm over channels, one name deeper, as checkpoints have it.
class ChannelNormImpl : public torch::nn::Module {
 public:
  explicit ChannelNormImpl(int64_t dim);

  Tensor forward(const Tensor& pixels) { return norm->forward(pixels); }

  torch::nn::LayerNorm norm;
};
TORCH_MODULE(ChannelNorm);

class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const BlockOptions& options);

  Tensor forward(const Tensor& pixels);

  // The pixels with their positions, before any branch is added.
  Tensor placed(const Tensor& pixels) { return pixels + convolve(pos, pixels); }

  torch::nn::Conv2d pos;
  ChannelNorm norm1, norm2;
  GridAttention attn;
  ConvFfn ffn;
  Tensor gamma_1, gamma_2;  // (1, C, 1, 1), the scales of the branches

 private:
  double drop_path_;
};
TORCH_MODULE(Block);

}  // namespace mala::nn
