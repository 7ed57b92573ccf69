// mala::attention on the CPU.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "mala/kernels/attention.h"
#include "mala/ops/attention_shapes.h"
#include "mala/ops/lengths.h"
#include "mala/ops/options.h"
#include "mala/ops/views.h"

namespace mala::ops {
namespace {

template <typename T>
AttentionInputs<T> kernel_inputs(const AttentionCall& call, const KernelLengths& lengths) {
  return {.q = read_view<T>(call.q),
          .k = read_view<T>(call.k),
          .v = read_view<T>(call.v),
          .local = read_view<T>(call.local),
          .gate = read_view<T>(call.gate),
          .lengths = lengths.view()};
}

// From torch's allocator. Also where the kernels check the sizes, before results are allocated.
template <typename T>
Tensor new_scratch(const AttentionInputs<T>& inputs, const AttentionOptions& options) {
  // Gives this thread the number of workers set with torch.set_num_threads: OpenMP keeps one
  // for each thread that starts parallel regions, torch one for all of them.
  at::get_num_threads();
  return at::empty({attention_scratch_bytes<T>(inputs, options)}, at::kByte);
}

template <typename T>
Outputs forward(const AttentionCall& call) {
  const KernelLengths lengths(call);
  const AttentionInputs<T> inputs = kernel_inputs<T>(call, lengths);
  const AttentionOptions options = kernel_options(call);
  const Tensor scratch = new_scratch(inputs, options);
  const Tensor out = new_out(call), state = new_state(call);
  attention_forward<T>(inputs, options, write_view<T>(out), write_span<Compute<T>>(state),
                       std::as_writable_bytes(write_span<uint8_t>(scratch)));
  return {out, state};
}

template <typename T>
Gradients backward(const Tensor& out_gradient, const Tensor& state, const AttentionCall& call) {
  const KernelLengths lengths(call);
  const AttentionInputs<T> inputs = kernel_inputs<T>(call, lengths);
  const AttentionOptions options = kernel_options(call);
  const Tensor scratch = new_scratch(inputs, options);
  const Gradients gradients = new_gradients(call);
  const auto& [q, k, v, local, gate] = gradients;
  const AttentionGradients<T> views = {.q = write_view<T>(q),
                                       .k = write_view<T>(k),
                                       .v = write_view<T>(v),
                                       .local = call.local ? write_view<T>(local) : HeadsView<T>{},
                                       .gate = call.gate ? write_view<T>(gate) : HeadsView<T>{}};
  attention_backward<T>(inputs, options, read_view<T>(out_gradient),
                        {state.const_data_ptr<Compute<T>>(), static_cast<size_t>(state.numel())},
                        views, std::as_writable_bytes(write_span<uint8_t>(scratch)));
  return gradients;
}

// Calls run(T*), a null pointer that tells our name for a type that check_call let through.
template <class Run>
auto with_type(at::ScalarType type, Run&& run) {
  switch (type) {
    case at::kDouble:
      return run(static_cast<double*>(nullptr));
    case at::kBFloat16:
      return run(static_cast<BFloat16*>(nullptr));
    case at::kHalf:
      return run(static_cast<Float16*>(nullptr));
    default:
      return run(static_cast<float*>(nullptr));
  }
}

Outputs forward_cpu(const AttentionCall& call) {
  check_call(call);
  return with_type(call.q.scalar_type(), [&]<typename T>(T*) { return forward<T>(call); });
}

Gradients backward_cpu(const Tensor& out_gradient, const Tensor& state, const AttentionCall& call) {
  check_backward(out_gradient, state, call);
  return with_type(call.q.scalar_type(),
                   [&]<typename T>(T*) { return backward<T>(out_gradient, state, call); });
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, CPU, m) {
  m.impl("attention_forward", TORCH_FN(Flat::forward<forward_cpu>));
  m.impl("attention_backward", TORCH_FN(Flat::backward<backward_cpu>));
}

}  // namespace mala::ops
