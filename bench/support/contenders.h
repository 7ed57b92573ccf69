// The implementations that attention_bench times, each checked against float64 before it is timed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/support/case.h"

namespace mala::bench {

struct Contender {
  std::string impl;
  std::function<void()> run;  // one whole pass from raw q, k, v, or several of them
  int64_t passes = 1;         // in one run
  double error = 0;           // largest difference from float64 over the largest value
  bool right = true;          // the error is one of rounding
  int64_t bytes = 0;          // scratch and state; 0 where torch allocates them
};

// "mala", our torch operator, and "kernels", ours without torch, have every form; "published", the
// formula in eager torch, has the one it was published for; "sdpa" is torch's softmax.
bool has_form(const std::string& impl, const Case& what);

// Softmax is the function of torch itself, and another one than ours: it is not compared. The
// others are given raw q, k, v and compute the same.
std::vector<Contender> make_contenders(const Case& what, const std::vector<std::string>& impls);

// For torch and for our kernels, which share one pool; 0 leaves it. Returns those in use.
int64_t set_threads(int64_t threads);

}  // namespace mala::bench
