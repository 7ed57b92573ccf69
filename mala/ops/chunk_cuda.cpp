// mala::attention_chunk, mala::attention_text and mala::attention_step on a GPU. Only a count on
// the GPU of a state that came before is waited for: without one, with one on the CPU, and token by
// token, graphs can capture everything.
#include <ATen/ops/empty.h>

#include "mala/kernels/cuda/causal.h"
#include "mala/ops/cuda_call.h"
#include "mala/ops/flat.h"
#include "mala/ops/kernel_inputs.h"
#include "mala/ops/options.h"
#include "mala/ops/state_before.h"

namespace mala::ops {
namespace {

// Where a count is on the CPU: the keys so far, and those of this chunk.
template <typename T>
void add_counts(const CausalInputs<T>& inputs, std::span<int64_t> to) {
  const Lengths& lengths = inputs.tokens.lengths;
  for (size_t i = 0; i < to.size(); ++i) {
    int64_t keys = inputs.tokens.k.tokens;
    if (!lengths.key_counts.empty()) keys = lengths.key_counts[i];
    if (!lengths.q_offsets.empty()) keys = lengths.q_offsets[i + 1] - lengths.q_offsets[i];
    to[i] = inputs.before.counts[i] + keys;
  }
}

template <typename T>
ChunkOutputs forward(const ChunkCall& call, bool keeps_state, void* stream) {
  const KernelLengths lengths(call.tokens);
  const StateBefore before(call);
  const CausalInputs<T> inputs{kernel_inputs<T>(call.tokens, lengths), before.view()};
  const AttentionOptions options = kernel_options(call.tokens);
  const Scratch scratch(gpu::causal_forward_scratch_bytes<T>(inputs, options), call.tokens.q);
  const ChunkOutputs outputs = new_outputs(call, keeps_state);
  const auto& [out, state, count] = outputs;
  CausalStateAfter after;
  Tensor on_gpu = count;
  if (keeps_state) {
    if (count.is_cpu()) {
      add_counts(inputs, write_span<int64_t>(count));
      on_gpu = at::empty(count.sizes(), state.options().dtype(at::kLong));
    }
    after = {write_span<double>(state), write_span<int64_t>(on_gpu)};
  }
  gpu::causal_forward<T>(inputs, options, write_view<T>(out), after, scratch.span(), stream);
  return outputs;
}

template <typename T>
ChunkGradients backward(const ChunkBackwardCall& call, void* stream) {
  const KernelLengths lengths(call.forward.tokens);
  const StateBefore before(call.forward);
  const CausalInputs<T> inputs{kernel_inputs<T>(call.forward.tokens, lengths), before.view()};
  const AttentionOptions options = kernel_options(call.forward.tokens);
  const Scratch scratch(gpu::causal_backward_scratch_bytes<T>(inputs, options),
                        call.forward.tokens.q);
  const Tensor after = call.state_gradient ? call.state_gradient->contiguous() : Tensor();
  const ChunkGradients gradients = new_gradients(call.forward);
  const auto& [q, k, v, local, gate, state] = gradients;
  const CausalOutputGradients<T> from{
      .out = read_view<T>(call.out_gradient),
      .after = after.defined() ? read_span<double>(after) : std::span<const double>{}};
  const CausalInputGradients<T> to{.tokens = gradient_views<T>({q, k, v, local, gate}),
                                   .before = write_span<double>(state)};
  gpu::causal_backward<T>(inputs, options, from, to, scratch.span(), stream);
  return gradients;
}

template <typename T>
Tensor step(const StepCall& call, void* stream) {
  const AttentionCall tokens = call.chunk().tokens;
  const KernelLengths lengths(tokens);
  const Tensor out = new_outputs(call);
  gpu::causal_step<T>(
      kernel_inputs<T>(tokens, lengths), kernel_options(tokens), write_view<T>(out),
      {.sums = write_span<double>(call.state), .counts = write_span<int64_t>(call.count)}, stream);
  return out;
}

ChunkOutputs forward_cuda(const ChunkCall& call) {
  return run_on_gpu("mala::attention_chunk", call, call.tokens.q,
                    [&]<typename T>(T*, void* stream) { return forward<T>(call, true, stream); });
}

Tensor text_cuda(const TextCall& call) {
  return run_on_gpu("mala::attention", call, call.tokens.q, [&]<typename T>(T*, void* stream) {
    return std::get<0>(forward<T>(call.chunk(), false, stream));
  });
}

ChunkGradients backward_cuda(const ChunkBackwardCall& call) {
  return run_on_gpu("mala::attention_chunk_backward", call, call.forward.tokens.q,
                    [&]<typename T>(T*, void* stream) { return backward<T>(call, stream); });
}

Tensor step_cuda(const StepCall& call) {
  return run_on_gpu("mala::attention_step", call, call.q,
                    [&]<typename T>(T*, void* stream) { return step<T>(call, stream); });
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, CUDA, m) {
  implement<forward_cuda>(m);
  implement<text_cuda>(m);
  implement<backward_cuda>(m);
  implement<step_cuda>(m);
}

}  // namespace mala::ops
