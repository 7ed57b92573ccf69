// mala::attention on the CPU.
#include "mala/kernels/attention.h"
#include "mala/ops/cpu_call.h"
#include "mala/ops/flat.h"
#include "mala/ops/kernel_inputs.h"
#include "mala/ops/options.h"

namespace mala::ops {
namespace {

template <typename T>
Outputs forward(const AttentionCall& call) {
  const KernelLengths lengths(call);
  const AttentionInputs<T> inputs = kernel_inputs<T>(call, lengths);
  const AttentionOptions options = kernel_options(call);
  const Scratch scratch(attention_scratch_bytes<T>(inputs, options), call.q);
  const Outputs outputs = new_outputs(call);
  const auto& [out, state] = outputs;
  attention_forward<T>(inputs, options, write_view<T>(out), write_span<Compute<T>>(state),
                       scratch.span());
  return outputs;
}

template <typename T>
Gradients backward(const BackwardCall& call) {
  const KernelLengths lengths(call.forward);
  const AttentionInputs<T> inputs = kernel_inputs<T>(call.forward, lengths);
  const AttentionOptions options = kernel_options(call.forward);
  const Scratch scratch(attention_scratch_bytes<T>(inputs, options), call.forward.q);
  const Gradients gradients = new_gradients(call.forward);
  const Tensor state = call.state.contiguous();
  attention_backward<T>(inputs, options, read_view<T>(call.out_gradient),
                        read_span<Compute<T>>(state), gradient_views<T>(gradients), scratch.span());
  return gradients;
}

Outputs forward_cpu(const AttentionCall& call) {
  return run_on_cpu("mala::attention", call, call.q,
                    [&]<typename T>(T*) { return forward<T>(call); });
}

// The state is also what the passes of the CPU hand each other.
Tensor stateless_cpu(const StatelessCall& call) { return std::get<0>(forward_cpu(call.tokens)); }

Gradients backward_cpu(const BackwardCall& call) {
  return run_on_cpu("mala::attention_backward", call, call.forward.q,
                    [&]<typename T>(T*) { return backward<T>(call); });
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, CPU, m) {
  implement<forward_cpu>(m);
  implement<stateless_cpu>(m);
  implement<backward_cpu>(m);
}

}  // namespace mala::ops
