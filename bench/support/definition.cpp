// Calls the reference kernels, with a head for each worker.
#include "bench/support/definition.h"

#include <ATen/ATen.h>

#include "mala/core/parallel.h"
#include "mala/kernels/reference/attention.h"
#include "mala/kernels/reference/causal.h"

namespace mala::bench {

namespace {

using at::Tensor;

Tensor head_of(const Tensor& x, int64_t batch, int64_t head) {
  return x.defined() ? x.narrow(0, batch, 1).narrow(1, head, 1) : x;
}

std::vector<Tensor> heads_of(const std::vector<Tensor>& tensors, int64_t batch, int64_t head) {
  std::vector<Tensor> heads;
  for (const Tensor& x : tensors) heads.push_back(head_of(x, batch, head));
  return heads;
}

void bidirectional(const AttentionOptions& options, const Inputs& inputs, const Results& results) {
  const AttentionInputs<double> tokens = kernel_inputs<double>(inputs);
  reference::attention_forward(tokens, options, view<double>(results[0]));
  if (results.size() == 1) return;
  reference::attention_backward(tokens, options, view<const double>(inputs.out_gradient),
                                kernel_gradients<double>(results));
}

void causal(const AttentionOptions& options, const Inputs& inputs, const Results& results) {
  const CausalInputs<double> tokens{kernel_inputs<double>(inputs), {}};
  reference::causal_forward(tokens, options, view<double>(results[0]), {});
  if (results.size() == 1) return;
  reference::causal_backward(tokens, options, {view<const double>(inputs.out_gradient), {}},
                             {kernel_gradients<double>(results), {}});
}

}  // namespace

Results definition(const Case& what, const Inputs& inputs) {
  const Results results = empty_results(inputs);
  const AttentionOptions options = options_of(what);
  const int64_t heads = what.shape.heads;
  parallel_for(what.shape.batch * heads, [&](int64_t task, int64_t) {
    const int64_t b = task / heads, h = task % heads;
    const Inputs of_head{heads_of(inputs.qkv, b, h), head_of(inputs.out_gradient, b, h),
                         inputs.offsets};
    (is_causal(what.form) ? causal : bidirectional)(options, of_head, heads_of(results, b, h));
  });
  return results;
}

}  // namespace mala::bench
