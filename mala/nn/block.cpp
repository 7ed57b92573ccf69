// One block of MAViT.
#include "mala/nn/block.h"

#include "mala/nn/drop_path.h"

namespace mala::nn {

ChannelNormImpl::ChannelNormImpl(int64_t dim)
    : norm(register_module("norm",
                           torch::nn::LayerNorm(torch::nn::LayerNormOptions({dim}).eps(1e-6)))) {}

BlockImpl::BlockImpl(const BlockOptions& options)
    : pos(depthwise(options.dim, 3)),
      norm1(options.dim),
      norm2(options.dim),
      attn(options.dim, options.heads, options.mixer),
      ffn(options.dim, options.hidden),
      drop_path_(options.drop_path) {
  register_module("norm1", norm1);
  register_module("attn", attn);
  register_module("norm2", norm2);
  register_module("ffn", ffn);
  register_module("pos", pos);
  const auto scale = [&] { return torch::full({1, options.dim, 1, 1}, options.layer_scale); };
  gamma_1 = register_parameter("gamma_1", scale());
  gamma_2 = register_parameter("gamma_2", scale());
}

Tensor BlockImpl::forward(const Tensor& pixels) {
  const auto drop = [&](const Tensor& branch) {
    return drop_path(branch, drop_path_, is_training());
  };
  Tensor x = placed(pixels);
  x = x + drop(project_scaled(attn->proj, attn->mixed(norm1->forward(x)), gamma_1.flatten()));
  return x + drop(project_scaled(ffn->fc2, ffn->hidden(norm2->forward(x)), gamma_2.flatten()));
}

}  // namespace mala::nn
