// The maps of weights that the rules stand for, written out for a few queries: to look at, and to
// measure. Models never make them.
#pragma once

#include <optional>

#include "mala/nn/mixer.h"
#include "mala/nn/ratio.h"

namespace mala::nn {

// What all rules make their weights from, in double, for Q of the N queries.
struct MapScores {
  Tensor logits;     // (H, Q, N), q_i . k_j / sqrt(D) after rotation: what softmax takes
  Tensor products;   // (H, Q, N), the same of the features, over N: x_ij of docs/math.md
  Tensor magnitude;  // (H, Q), s_i of docs/math.md, before rotation
  Tensor lengths;    // (H, Q), |q_i|
};

// q and k are (H, N, D) as the projection made them, `queries` (Q) are places in 0..N-1. On a grid
// tokens are rotated by their place.
MapScores score(const Tensor& q, const Tensor& k, const Tensor& queries,
                std::optional<GridSize> grid);

// (H, Q, N), so that the rule's answer is weights . v. A query may be `growth` times as long as it
// is: itself for softmax, its features for the linear rules.
Tensor weights_of(Mixer mixer, const MapScores& scores, double growth = 1);

// What the paper says of the weights of keys a and b, for one head and the query at this place of
// `queries`.
RatioFormulas ratio_formulas(const MapScores& scores, int64_t head, int64_t query, int64_t a,
                             int64_t b);

}  // namespace mala::nn
