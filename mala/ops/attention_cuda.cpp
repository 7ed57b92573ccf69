// mala::attention on a GPU. Nothing here waits for the device, so that graphs can capture it.
#include "mala/kernels/cuda/attention.h"
#include "mala/ops/cuda_call.h"
#include "mala/ops/flat.h"
#include "mala/ops/kernel_inputs.h"
#include "mala/ops/options.h"
#include "mala/ops/tensors.h"

namespace mala::ops {
namespace {

// The state is undefined where it is not kept.
template <typename T>
Outputs forward(const AttentionCall& call, bool keeps_state, void* stream) {
  const KernelLengths lengths(call);
  const AttentionInputs<T> inputs = kernel_inputs<T>(call, lengths);
  const AttentionOptions options = kernel_options(call);
  const Scratch scratch(gpu::attention_forward_scratch_bytes<T>(inputs, options), call.q);
  const Outputs outputs =
      keeps_state ? new_outputs(call) : Outputs{new_out(call.q, call.value_dim()), Tensor()};
  const auto& [out, state] = outputs;
  const std::span<float> kept = keeps_state ? write_span<float>(state) : std::span<float>{};
  gpu::attention_forward<T>(inputs, options, write_view<T>(out), kept, scratch.span(), stream);
  return outputs;
}

template <typename T>
Gradients backward(const BackwardCall& call, void* stream) {
  const KernelLengths lengths(call.forward);
  const AttentionInputs<T> inputs = kernel_inputs<T>(call.forward, lengths);
  const AttentionOptions options = kernel_options(call.forward);
  const Scratch scratch(gpu::attention_backward_scratch_bytes<T>(inputs, options), call.forward.q);
  const Gradients gradients = new_gradients(call.forward);
  const Tensor state = call.state.contiguous();
  gpu::attention_backward<T>(inputs, options, read_view<T>(call.out_gradient),
                             read_span<float>(state), gradient_views<T>(gradients), scratch.span(),
                             stream);
  return gradients;
}

Outputs forward_cuda(const AttentionCall& call) {
  return run_on_gpu("mala::attention", call, call.q,
                    [&]<typename T>(T*, void* stream) { return forward<T>(call, true, stream); });
}

Tensor stateless_cuda(const StatelessCall& call) {
  return run_on_gpu("mala::attention", call, call.tokens.q, [&]<typename T>(T*, void* stream) {
    return std::get<0>(forward<T>(call.tokens, false, stream));
  });
}

Gradients backward_cuda(const BackwardCall& call) {
  return run_on_gpu("mala::attention_backward", call, call.forward.q,
                    [&]<typename T>(T*, void* stream) { return backward<T>(call, stream); });
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, CUDA, m) {
  implement<forward_cuda>(m);
  implement<stateless_cuda>(m);
  implement<backward_cuda>(m);
}

}  // namespace mala::ops
