// MAViT for answers alone: batch norms, scales and residuals folded into weights, no gradients, and
// no copies between the picture and the head.
#pragma once

#include <vector>

#include "mala/models/vision/folded.h"
#include "mala/models/vision/mavit.h"

namespace mala::models {

// What is left of one block.
class FoldedBlock {
 public:
  explicit FoldedBlock(const nn::BlockImpl& block);

  Tensor forward(const Tensor& pixels) const;

 private:
  // Before the last projection.
  Tensor attend(const Tensor& pixels) const;

  FoldedConv position_, local_, neighbours_;
  FoldedNorm attention_norm_, ffn_norm_;
  FoldedQuartet qkvo_;
  FoldedProjection proj_, fc1_, fc2_;
  int64_t heads_;
  nn::Mixer mixer_;
};

class MavitInference {
 public:
  // Takes the weights as they are now; the model may be changed or go away afterwards.
  explicit MavitInference(const MavitImpl& model);

  // (B, 3, H, W) -> (B, classes): what the model answers after eval().
  Tensor forward(const Tensor& images) const;

 private:
  struct FoldedStage {
    std::vector<FoldedBlock> blocks;
    std::vector<FoldedConv> downsample;  // one, or none in the last stage
  };

  std::vector<FoldedConv> patches_;
  std::vector<FoldedStage> stages_;
  FoldedProjection proj_, head_;
};

}  // namespace mala::models
