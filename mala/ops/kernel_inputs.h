// Calls that have q, k and v, and their gradients, as the views that the kernels take.
#pragma once

#include "mala/kernels/attention.h"
#include "mala/ops/calls.h"
#include "mala/ops/lengths.h"
#include "mala/ops/views.h"

namespace mala::ops {

template <typename T>
AttentionInputs<T> kernel_inputs(const AttentionCall& call, const KernelLengths& lengths) {
  return {.q = read_view<T>(call.q),
          .k = read_view<T>(call.k),
          .v = read_view<T>(call.v),
          .local = read_view<T>(call.tail.local),
          .gate = read_view<T>(call.tail.gate),
          .lengths = lengths.view()};
}

// An absent gradient, which has no elements, becomes an absent view.
template <typename T>
HeadsView<T> gradient_view(const Tensor& x) {
  return x.dim() == 4 ? write_view<T>(x) : HeadsView<T>{};
}

template <typename T>
AttentionGradients<T> gradient_views(const Gradients& gradients) {
  const auto& [q, k, v, local, gate] = gradients;
  return {.q = write_view<T>(q),
          .k = write_view<T>(k),
          .v = write_view<T>(v),
          .local = gradient_view<T>(local),
          .gate = gradient_view<T>(gate)};
}

}  // namespace mala::ops
