// What the attention of a model works on, taken out on its way through a picture.
#pragma once

#include <vector>

#include "mala/models/vision/mavit.h"
#include "mala/nn/attention_map.h"

namespace mala::models {

// The last block of one stage, as its projection made them and before features and rotation.
struct StageProbe {
  Tensor q, k, v;  // (H, N, D)
  nn::GridSize grid;
  nn::Mixer mixer = nn::Mixer::kMala;
};

// Image is (1, 3, H, W). The model goes its usual way, whatever its mixers; forward() itself has
// nothing to do with this.
std::vector<StageProbe> probe(MavitImpl& model, const Tensor& image);

// How some of the tokens look at all: what maps are made from. `queries` (Q) are their places.
nn::MapScores score(const StageProbe& stage, const Tensor& queries);

}  // namespace mala::models
