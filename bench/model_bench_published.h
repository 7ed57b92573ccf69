// The published block structure in eager torch, channels first, with the weights of a model.
#pragma once

#include <array>
#include <map>
#include <utility>

#include "bench/support/published.h"
#include "mala/models/vision/mavit.h"

namespace mala::bench {

// What the released code does, step by step: norms between two transpositions, slices of the packed
// projection laid out in heads, RoPE by tables, and the softmax maps in full. The tables of a size
// are made once, though the released code makes them each time. For the mixers mala and softmax.
class PublishedMavit {
 public:
  explicit PublishedMavit(models::Mavit model) : model_(std::move(model)) {}

  at::Tensor forward(const at::Tensor& images);  // for inference
  at::Tensor run(const at::Tensor& images);      // with gradients, where they are on

 private:
  at::Tensor run_stage(models::Stage& stage, at::Tensor x);
  const RopeTables& tables(const at::Tensor& x, int64_t head_dim);

  models::Mavit model_;
  std::map<std::array<int64_t, 3>, RopeTables> tables_;  // by height, width and head size
};

}  // namespace mala::bench
