// mala::attention_chunk, mala::attention_text and mala::attention_step on the CPU.
#include "mala/kernels/causal.h"
#include "mala/ops/cpu_call.h"
#include "mala/ops/flat.h"
#include "mala/ops/kernel_inputs.h"
#include "mala/ops/options.h"
#include "mala/ops/state_before.h"

namespace mala::ops {
namespace {

template <typename T>
ChunkOutputs forward(const ChunkCall& call, bool keeps_state) {
  const KernelLengths lengths(call.tokens);
  const StateBefore before(call);
  const CausalInputs<T> inputs{kernel_inputs<T>(call.tokens, lengths), before.view()};
  const AttentionOptions options = kernel_options(call.tokens);
  const Scratch scratch(causal_forward_scratch_bytes<T>(inputs, options), call.tokens.q);
  const ChunkOutputs outputs = new_outputs(call, keeps_state);
  const auto& [out, state, count] = outputs;
  CausalStateAfter after;
  if (keeps_state) after = {write_span<double>(state), write_span<int64_t>(count)};
  causal_forward<T>(inputs, options, write_view<T>(out), after, scratch.span());
  return outputs;
}

template <typename T>
ChunkGradients backward(const ChunkBackwardCall& call) {
  const KernelLengths lengths(call.forward.tokens);
  const StateBefore before(call.forward);
  const CausalInputs<T> inputs{kernel_inputs<T>(call.forward.tokens, lengths), before.view()};
  const AttentionOptions options = kernel_options(call.forward.tokens);
  const Scratch scratch(causal_backward_scratch_bytes<T>(inputs, options), call.forward.tokens.q);
  const Tensor after = call.state_gradient ? call.state_gradient->contiguous() : Tensor();
  const ChunkGradients gradients = new_gradients(call.forward);
  const auto& [q, k, v, local, gate, state] = gradients;
  const CausalOutputGradients<T> from{
      .out = read_view<T>(call.out_gradient),
      .after = after.defined() ? read_span<double>(after) : std::span<const double>{}};
  const CausalInputGradients<T> to{.tokens = gradient_views<T>({q, k, v, local, gate}),
                                   .before = write_span<double>(state)};
  causal_backward<T>(inputs, options, from, to, scratch.span());
  return gradients;
}

template <typename T>
Tensor step(const StepCall& call) {
  const AttentionCall tokens = call.chunk().tokens;
  const KernelLengths lengths(tokens);
  const Tensor out = new_outputs(call);
  causal_step<T>(
      kernel_inputs<T>(tokens, lengths), kernel_options(tokens), write_view<T>(out),
      {.sums = write_span<double>(call.state), .counts = write_span<int64_t>(call.count)});
  return out;
}

ChunkOutputs forward_cpu(const ChunkCall& call) {
  return run_on_cpu("mala::attention_chunk", call, call.tokens.q,
                    [&]<typename T>(T*) { return forward<T>(call, true); });
}

Tensor text_cpu(const TextCall& call) {
  return run_on_cpu("mala::attention", call, call.tokens.q,
                    [&]<typename T>(T*) { return std::get<0>(forward<T>(call.chunk(), false)); });
}

ChunkGradients backward_cpu(const ChunkBackwardCall& call) {
  return run_on_cpu("mala::attention_chunk_backward", call, call.forward.tokens.q,
                    [&]<typename T>(T*) { return backward<T>(call); });
}

Tensor step_cpu(const StepCall& call) {
  return run_on_cpu("mala::attention_step", call, call.q,
                    [&]<typename T>(T*) { return step<T>(call); });
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, CPU, m) {
  implement<forward_cpu>(m);
  implement<text_cpu>(m);
  implement<backward_cpu>(m);
  implement<step_cpu>(m);
}

}  // namespace mala::ops
