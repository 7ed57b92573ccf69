// MAViT for answers alone. Results that nobody else sees are changed in place.
#include "mala/models/vision/mavit_inference.h"

#include <c10/core/InferenceMode.h>

#include "mala/core/error.h"
#include "mala/nn/rope.h"

namespace mala::models {

FoldedBlock::FoldedBlock(const nn::BlockImpl& block)
    : position_(fold_residual(*block.pos)),
      local_(fold(*block.attn->lepe)),
      neighbours_(fold_residual(*block.ffn->dwconv)),
      attention_norm_(fold(*block.norm1->norm)),
      ffn_norm_(fold(*block.norm2->norm)),
      qkvo_(fold_quartet(*block.attn->qkvo)),
      proj_(fold_projection(*block.attn->proj, block.gamma_1)),
      fc1_(fold_projection(*block.ffn->fc1)),
      fc2_(fold_projection(*block.ffn->fc2, block.gamma_2)),
      heads_(block.attn->heads()),
      mixer_(block.attn->mixer()) {}

Tensor FoldedBlock::attend(const Tensor& pixels) const {
  nn::PackedParts parts = qkvo_(pixels);
  if (mixer_ == nn::Mixer::kSoftmax) {  // nobody else sees them, so they are turned where they lie
    nn::rotate_in_place(parts.q, heads_);
    nn::rotate_in_place(parts.k, heads_);
    parts.is_rotated = true;
  }
  return nn::mix_on_grid(mixer_, parts, local_(parts.v), heads_);
}

Tensor FoldedBlock::forward(const Tensor& pixels) const {
  Tensor x = position_(pixels);
  x = proj_.added_to(x, attend(attention_norm_(x)));
  return fc2_.added_to(x, neighbours_(fc1_.gelu(ffn_norm_(x))));
}

MavitInference::MavitInference(const MavitImpl& model)
    : proj_(fold_projection(*model.proj, *model.norm)), head_(fold_projection(*model.head)) {
  const torch::nn::SequentialImpl& stem = *model.patch_embed->proj;
  for (size_t i = 0; i < stem.size(); i += 3) {  // a convolution, its norm, and an activation
    patches_.push_back(fold(dynamic_cast<const torch::nn::Conv2dImpl&>(*stem[i]),
                            dynamic_cast<const torch::nn::BatchNorm2dImpl&>(*stem[i + 1])));
  }
  for (const Stage& stage : model.layers) {
    FoldedStage& folded = stages_.emplace_back();
    for (const nn::Block& block : stage->blocks) folded.blocks.emplace_back(*block);
    if (!stage->downsample) continue;
    folded.downsample.push_back(fold(*stage->downsample->reduction, *stage->downsample->norm));
  }
}

Tensor MavitInference::forward(const Tensor& images) const {
  const c10::InferenceMode inference;
  nn::check_images(images);
  const Tensor& known = head_.bias;
  check(images.scalar_type() == known.scalar_type() && images.device() == known.device(),
        "MavitInference", "pictures are ", c10::toString(images.scalar_type()), " on ",
        images.device().str(), ", the model is ", c10::toString(known.scalar_type()), " on ",
        known.device().str(), "; convert the pictures");
  Tensor x = nn::as_pixels(images.contiguous(torch::MemoryFormat::ChannelsLast));
  for (size_t i = 0; i < patches_.size(); ++i) {
    x = i + 1 < patches_.size() ? patches_[i].gelu(x) : patches_[i](x);
  }
  for (const FoldedStage& stage : stages_) {
    for (const FoldedBlock& block : stage.blocks) x = block.forward(x);
    for (const FoldedConv& step : stage.downsample) x = step(x);
  }
  x = proj_(x);
  return head_(torch::silu_(x).mean({1, 2}));
}

}  // namespace mala::models
