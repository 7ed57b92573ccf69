// Calls the kernels on the memory of torch tensors.
#include "bench/support/raw_kernels.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "mala/kernels/attention.h"
#include "mala/kernels/causal.h"

namespace mala::bench {

namespace {

using at::Tensor;

int64_t sequences(const Inputs& inputs) {
  return inputs.offsets.defined() ? inputs.offsets.size(0) - 1 : inputs.qkv[0].size(0);
}

int64_t state_size(const Inputs& inputs) {
  const Tensor &k = inputs.qkv[1], &v = inputs.qkv[2];
  return attention_state_size(sequences(inputs), k.size(1), k.size(3), v.size(3));
}

// In both, the closure holds the tensors, hence the memory that the views point to.

template <typename T>
RawCall bidirectional_call(const AttentionOptions& options, const Inputs& inputs) {
  const AttentionInputs<T> tokens = kernel_inputs<T>(inputs);
  const Results results = empty_results(inputs);
  const Tensor state = at::empty({state_size(inputs)}, scalar_type(dtype_of<Compute<T>>()));
  const Tensor scratch = at::empty({attention_scratch_bytes(tokens, options)}, at::kByte);
  auto run = [=] {
    attention_forward(tokens, options, view<T>(results[0]), elements<Compute<T>>(state),
                      elements<std::byte>(scratch));
    if (results.size() == 1) return results;
    attention_backward<T>(tokens, options, view<const T>(inputs.out_gradient),
                          elements<const Compute<T>>(state), kernel_gradients<T>(results),
                          elements<std::byte>(scratch));
    return results;
  };
  return {run, static_cast<int64_t>(state.nbytes() + scratch.nbytes())};
}

template <typename T>
RawCall causal_call(const AttentionOptions& options, const Inputs& inputs) {
  const CausalInputs<T> tokens{kernel_inputs<T>(inputs), {}};
  const Results results = empty_results(inputs);
  const Tensor sums = at::empty({state_size(inputs)}, at::kDouble);
  const Tensor counts = at::empty({sequences(inputs)}, at::kLong);
  int64_t scratch_bytes = causal_forward_scratch_bytes(tokens, options);
  if (results.size() > 1) {
    scratch_bytes = std::max(scratch_bytes, causal_backward_scratch_bytes(tokens, options));
  }
  const Tensor scratch = at::empty({scratch_bytes}, at::kByte);
  auto run = [=] {
    causal_forward<T>(tokens, options, view<T>(results[0]),
                      {elements<double>(sums), elements<int64_t>(counts)},
                      elements<std::byte>(scratch));
    if (results.size() == 1) return results;
    causal_backward<T>(tokens, options, {view<const T>(inputs.out_gradient), {}},
                       {kernel_gradients<T>(results), {}}, elements<std::byte>(scratch));
    return results;
  };
  return {run, static_cast<int64_t>(sums.nbytes() + counts.nbytes() + scratch.nbytes())};
}

}  // namespace

RawCall raw_kernel_call(const Case& what, const Inputs& inputs) {
  const AttentionOptions options = options_of(what);
  return with_type(what.dtype, [&]<typename T>(T) {
    return is_causal(what.form) ? causal_call<T>(options, inputs)
                                : bidirectional_call<T>(options, inputs);
  });
}

}  // namespace mala::bench
