// One token of each sequence on a GPU. No CUDA types, so that plain C++ can call it.
#pragma once

#include "mala/kernels/causal.h"
#include "mala/kernels/cuda/launch.h"

namespace mala::gpu {

// How the token of one side turns.
struct StepTurn {
  static constexpr int kMaxPairs = 128;
  Rope rope;
  double frequencies[kMaxPairs];  // in whole turns per position
};

// What the kernel is told, by value.
template <typename T>
struct StepCall {
  StepCall(const AttentionInputs<T>& token, const AttentionOptions& options, HeadsView<T> to,
           const CausalStateAfter& state);

  AttentionInputs<T> inputs;  // without lengths
  HeadsView<T> out;
  Rule rule;
  Norm norm;
  Feature feature;
  bool key_mean;
  double scale, eps;
  StateLayout layout;
  double* sums;
  int64_t* counts;
  StepTurn q_turn, k_turn;
};

template <typename T>
void launch_step(Launcher& on, const StepCall<T>& call);

}  // namespace mala::gpu
