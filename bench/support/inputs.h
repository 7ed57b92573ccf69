// The tensors of a case: what every implementation of it is given, and room for what it gives.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "bench/support/case.h"
#include "bench/support/tensors.h"

namespace mala::bench {

struct Inputs {
  std::vector<at::Tensor> qkv;  // (B, H, N, D) each
  at::Tensor out_gradient;      // (B, H, N, D); absent where there is no backward pass
  at::Tensor offsets;           // (S + 1) of int64; absent where nothing is packed
};

// out, and with the backward pass the gradients of q, k and v: (B, H, N, D) each.
using Results = std::vector<at::Tensor>;

// The same numbers each time, of the case's type.
Inputs random_inputs(const Case& what);

Inputs in_double(const Inputs& inputs);

Results empty_results(const Inputs& inputs);

// Point into the tensors.
template <typename T>
AttentionInputs<T> kernel_inputs(const Inputs& inputs) {
  AttentionInputs<T> views;
  views.q = view<T>(inputs.qkv[0]), views.k = view<T>(inputs.qkv[1]);
  views.v = view<T>(inputs.qkv[2]);
  if (inputs.offsets.defined()) {
    views.lengths.q_offsets = views.lengths.k_offsets = elements<const int64_t>(inputs.offsets);
  }
  return views;
}

template <typename T>
AttentionGradients<T> kernel_gradients(const Results& results) {
  return {.q = view<T>(results[1]), .k = view<T>(results[2]), .v = view<T>(results[3])};
}

}  // namespace mala::bench
