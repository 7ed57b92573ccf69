// mala::attention_keys and mala::attention_queries on a GPU. Nothing here waits for the device.
#include "mala/kernels/cuda/split.h"
#include "mala/ops/cuda_call.h"
#include "mala/ops/flat.h"
#include "mala/ops/options.h"
#include "mala/ops/split_inputs.h"

namespace mala::ops {
namespace {

template <typename T>
Tensor keys(const KeysCall& call, void* stream) {
  const KernelLengths lengths(call);
  const KeysInputs<T> inputs = kernel_inputs<T>(call, lengths);
  const AttentionOptions options = kernel_options(call);
  const Scratch scratch(gpu::keys_scratch_bytes<T>(inputs, options), call.k);
  const Tensor state = new_outputs(call);
  gpu::keys_forward<T>(inputs, options, write_span<float>(state), scratch.span(), stream);
  return state;
}

template <typename T>
KeysGradients keys_gradients(const KeysBackwardCall& call, void* stream) {
  const KernelLengths lengths(call.forward);
  const KeysInputs<T> inputs = kernel_inputs<T>(call.forward, lengths);
  const AttentionOptions options = kernel_options(call.forward);
  const Scratch scratch(gpu::keys_scratch_bytes<T>(inputs, options), call.forward.k);
  const Tensor state_gradient = call.state_gradient.contiguous();
  const KeysGradients gradients = new_gradients(call.forward);
  const auto& [k, v] = gradients;
  gpu::keys_backward<T>(inputs, options, read_span<float>(state_gradient),
                        {.k = write_view<T>(k), .v = write_view<T>(v)}, scratch.span(), stream);
  return gradients;
}

template <typename T>
Tensor queries(const QueriesCall& call, void* stream) {
  const KernelLengths lengths(call);
  const QueriesInputs<T> inputs = kernel_inputs<T>(call, lengths);
  const AttentionOptions options = kernel_options(call);
  const WholeState<T> state(call);
  const Scratch scratch(
      gpu::queries_scratch_bytes<T>(inputs, options, state.view(), value_dim(call)), call.q);
  const Tensor out = new_outputs(call);
  gpu::queries_forward<T>(inputs, options, state.view(), write_view<T>(out), scratch.span(),
                          stream);
  return out;
}

template <typename T>
QueriesGradients queries_gradients(const QueriesBackwardCall& call, void* stream) {
  const KernelLengths lengths(call.forward);
  const QueriesInputs<T> inputs = kernel_inputs<T>(call.forward, lengths);
  const AttentionOptions options = kernel_options(call.forward);
  const WholeState<T> total(call.forward);
  const Scratch scratch(
      gpu::queries_scratch_bytes<T>(inputs, options, total.view(), value_dim(call.forward)),
      call.forward.q);
  const QueriesGradients gradients = new_gradients(call.forward);
  const auto& [q, state, local, gate] = gradients;
  gpu::queries_backward<T>(
      inputs, options, total.view(), read_view<T>(call.out_gradient),
      {.q = write_view<T>(q), .local = gradient_view<T>(local), .gate = gradient_view<T>(gate)},
      write_span<float>(state), scratch.span(), stream);
  return gradients;
}

Tensor keys_cuda(const KeysCall& call) {
  return run_on_gpu("mala::attention_keys", call, call.k,
                    [&]<typename T>(T*, void* stream) { return keys<T>(call, stream); });
}

KeysGradients keys_backward_cuda(const KeysBackwardCall& call) {
  return run_on_gpu("mala::attention_keys_backward", call, call.forward.k,
                    [&]<typename T>(T*, void* stream) { return keys_gradients<T>(call, stream); });
}

Tensor queries_cuda(const QueriesCall& call) {
  return run_on_gpu("mala::attention_queries", call, call.q,
                    [&]<typename T>(T*, void* stream) { return queries<T>(call, stream); });
}

QueriesGradients queries_backward_cuda(const QueriesBackwardCall& call) {
  return run_on_gpu(
      "mala::attention_queries_backward", call, call.forward.q,
      [&]<typename T>(T*, void* stream) { return queries_gradients<T>(call, stream); });
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, CUDA, m) {
  implement<keys_cuda>(m);
  implement<keys_backward_cuda>(m);
  implement<queries_cuda>(m);
  implement<queries_backward_cuda>(m);
}

}  // namespace mala::ops
