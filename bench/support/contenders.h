// The implementations that attention_bench times, each checked against float64 before it is timed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/support/case.h"

namespace mala::bench {

struct Contender {
  std::string impl;
  std::function<void()> run;  // one whole pass from raw q, k, v
  double error = 0;           // largest difference from float64 over the largest value
};

// Above this its results count as wrong. Float32 gives 1e-6 to 3e-6 at every shape we time, in
// ours and in the published formula, which leaves room for other orders of summation.
constexpr double kLargestError = 2e-5;

// Softmax is the function of torch itself, and another one than ours: it is not compared. The
// others are given raw q, k, v and compute the published operator: rule mala, norm published,
// feature elu1, RoPE over the grid of grid_width(tokens).
std::vector<Contender> make_contenders(const Shape& shape, Pass pass,
                                       const std::vector<std::string>& impls);

// For torch and for our kernels, which share one pool; 0 leaves it. Returns those in use.
int64_t set_threads(int64_t threads);

}  // namespace mala::bench
