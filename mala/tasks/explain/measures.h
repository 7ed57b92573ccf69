// How sharp maps of weights are, and how close to each other. Weights are (..., N), one number for
// each row comes out.
#pragma once

#include <torch/types.h>

namespace mala::tasks {

using torch::Tensor;

// Weights as shares: negative ones count as nothing, and the rest is divided by its sum. A row
// without a positive weight becomes even.
Tensor shares_of(const Tensor& weights);

// Of the shares, over that of an even map: 1 looks everywhere alike, 0 at one token.
Tensor entropy_of(const Tensor& weights);

// Kullback-Leibler divergence from the shares of `truth` to those of `map`, in nats. No share
// counts as less than a thousandth of the mean one, so that nothing is infinite.
Tensor divergence(const Tensor& truth, const Tensor& map);

// Spearman's: 1 when both put the tokens into the same order. Equal weights share their rank; a map
// of equal weights has no order, and gets 0.
Tensor rank_correlation(const Tensor& a, const Tensor& b);

// The part of all |weights| that is negative.
Tensor negative_part(const Tensor& weights);

}  // namespace mala::tasks
