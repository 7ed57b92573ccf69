// mala::attention_keys and mala::attention_queries on the CPU.
#include "mala/ops/cpu_call.h"
#include "mala/ops/flat.h"
#include "mala/ops/options.h"
#include "mala/ops/split_inputs.h"

namespace mala::ops {
namespace {

template <typename T>
Tensor keys(const KeysCall& call) {
  const KernelLengths lengths(call);
  const KeysInputs<T> inputs = kernel_inputs<T>(call, lengths);
  const AttentionOptions options = kernel_options(call);
  const Scratch scratch(keys_scratch_bytes<T>(inputs, options), call.k);
  const Tensor state = new_outputs(call);
  keys_forward<T>(inputs, options, write_span<Compute<T>>(state), scratch.span());
  return state;
}

template <typename T>
KeysGradients keys_gradients(const KeysBackwardCall& call) {
  const KernelLengths lengths(call.forward);
  const KeysInputs<T> inputs = kernel_inputs<T>(call.forward, lengths);
  const AttentionOptions options = kernel_options(call.forward);
  const Scratch scratch(keys_scratch_bytes<T>(inputs, options), call.forward.k);
  const Tensor state_gradient = call.state_gradient.contiguous();
  const KeysGradients gradients = new_gradients(call.forward);
  const auto& [k, v] = gradients;
  keys_backward<T>(inputs, options, read_span<Compute<T>>(state_gradient),
                   {.k = write_view<T>(k), .v = write_view<T>(v)}, scratch.span());
  return gradients;
}

template <typename T>
Tensor queries(const QueriesCall& call) {
  const KernelLengths lengths(call);
  const QueriesInputs<T> inputs = kernel_inputs<T>(call, lengths);
  const AttentionOptions options = kernel_options(call);
  const WholeState<T> state(call);
  const Scratch scratch(queries_scratch_bytes<T>(inputs, options, state.view(), value_dim(call)),
                        call.q);
  const Tensor out = new_outputs(call);
  queries_forward<T>(inputs, options, state.view(), write_view<T>(out), scratch.span());
  return out;
}

template <typename T>
QueriesGradients queries_gradients(const QueriesBackwardCall& call) {
  const KernelLengths lengths(call.forward);
  const QueriesInputs<T> inputs = kernel_inputs<T>(call.forward, lengths);
  const AttentionOptions options = kernel_options(call.forward);
  const WholeState<T> total(call.forward);
  const Scratch scratch(
      queries_scratch_bytes<T>(inputs, options, total.view(), value_dim(call.forward)),
      call.forward.q);
  const QueriesGradients gradients = new_gradients(call.forward);
  const auto& [q, state, local, gate] = gradients;
  queries_backward<T>(
      inputs, options, total.view(), read_view<T>(call.out_gradient),
      {.q = write_view<T>(q), .local = gradient_view<T>(local), .gate = gradient_view<T>(gate)},
      write_span<Compute<T>>(state), scratch.span());
  return gradients;
}

Tensor keys_cpu(const KeysCall& call) {
  return run_on_cpu("mala::attention_keys", call, call.k,
                    [&]<typename T>(T*) { return keys<T>(call); });
}

KeysGradients keys_backward_cpu(const KeysBackwardCall& call) {
  return run_on_cpu("mala::attention_keys_backward", call, call.forward.k,
                    [&]<typename T>(T*) { return keys_gradients<T>(call); });
}

Tensor queries_cpu(const QueriesCall& call) {
  return run_on_cpu("mala::attention_queries", call, call.q,
                    [&]<typename T>(T*) { return queries<T>(call); });
}

QueriesGradients queries_backward_cpu(const QueriesBackwardCall& call) {
  return run_on_cpu("mala::attention_queries_backward", call, call.forward.q,
                    [&]<typename T>(T*) { return queries_gradients<T>(call); });
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, CPU, m) {
  implement<keys_cpu>(m);
  implement<keys_backward_cpu>(m);
  implement<queries_cpu>(m);
  implement<queries_backward_cpu>(m);
}

}  // namespace mala::ops
