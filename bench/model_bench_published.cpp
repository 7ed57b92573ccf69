// The published block structure in eager torch.
#include "bench/model_bench_published.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <cmath>

namespace mala::bench {

namespace {

using at::Tensor;

Tensor norm_channels(nn::ChannelNorm& norm, const Tensor& x) {
  const Tensor pixels = norm->forward(x.permute({0, 2, 3, 1}).contiguous());
  return pixels.permute({0, 3, 1, 2}).contiguous();
}

Tensor softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                         const RopeTables& rope) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
  const Tensor scores = at::matmul(scale * rotate(q, rope), rotate(k, rope).transpose(-1, -2));
  return at::matmul(at::softmax(scores, -1), v);
}

Tensor attend(nn::GridAttention& attention, const Tensor& x, const RopeTables& rope) {
  const int64_t batch = x.size(0), dim = x.size(1), height = x.size(2), width = x.size(3);
  const int64_t heads = attention->heads();
  const Tensor packed = attention->qkvo->forward(x);
  const Tensor local = attention->lepe->forward(packed.narrow(1, 2 * dim, dim));
  // (3, B, H, N, D)
  const Tensor qkv = packed.narrow(1, 0, 3 * dim)
                         .reshape({batch, 3, heads, dim / heads, height * width})
                         .permute({1, 0, 2, 4, 3});
  const bool is_softmax = attention->mixer() == nn::Mixer::kSoftmax;
  const Tensor mixed = is_softmax ? softmax_attention(qkv[0], qkv[1], qkv[2], rope)
                                  : published_attention(qkv[0], qkv[1], qkv[2], rope);
  const Tensor image = mixed.transpose(2, 3).reshape({batch, dim, height, width});
  return attention->proj->forward((image + local) * packed.narrow(1, 3 * dim, dim));
}

Tensor feed_forward(nn::ConvFfn& ffn, const Tensor& x) {
  const Tensor hidden = at::gelu(ffn->fc1->forward(x));
  return ffn->fc2->forward(ffn->dwconv->forward(hidden) + hidden);
}

Tensor run_block(nn::Block& block, const Tensor& image, const RopeTables& rope) {
  Tensor x = image + block->pos->forward(image);
  x = x + block->gamma_1 * attend(block->attn, norm_channels(block->norm1, x), rope);
  return x + block->gamma_2 * feed_forward(block->ffn, norm_channels(block->norm2, x));
}

}  // namespace

const RopeTables& PublishedMavit::tables(const Tensor& x, int64_t head_dim) {
  const int64_t height = x.size(2), width = x.size(3);
  const auto [entry, is_new] = tables_.try_emplace({height, width, head_dim});
  if (is_new) {
    entry->second = grid_rope_tables(height * width, width, head_dim, x.scalar_type());
    entry->second.sin = entry->second.sin.to(x.device());
    entry->second.cos = entry->second.cos.to(x.device());
  }
  return entry->second;
}

Tensor PublishedMavit::run_stage(models::Stage& stage, Tensor x) {
  const RopeTables& rope = tables(x, x.size(1) / stage->blocks.front()->attn->heads());
  for (nn::Block& block : stage->blocks) x = run_block(block, x, rope);
  if (!stage->downsample) return x;
  return stage->downsample->norm->forward(stage->downsample->reduction->forward(x));
}

Tensor PublishedMavit::forward(const Tensor& images) {
  const c10::InferenceMode inference;
  return run(images);
}

Tensor PublishedMavit::run(const Tensor& images) {
  Tensor x = model_->patch_embed->proj->forward(images);
  for (models::Stage& stage : model_->layers) x = run_stage(stage, x);
  x = at::silu(model_->norm->forward(model_->proj->forward(x)));
  return model_->head->forward(at::adaptive_avg_pool2d(x, {1, 1})).flatten(1);
}

}  // namespace mala::bench
