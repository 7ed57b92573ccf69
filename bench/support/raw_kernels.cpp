// Calls the kernels on the memory of torch tensors.
#include "bench/support/raw_kernels.h"

#include <ATen/ATen.h>

#include "mala/kernels/attention.h"

namespace mala::bench {

namespace {

using at::Tensor;

HeadsView<float> view(const Tensor& x) {
  return dense_heads(x.data_ptr<float>(), x.size(0), x.size(1), x.size(2), x.size(3));
}

template <typename T>
std::span<T> elements(const Tensor& x) {
  return {reinterpret_cast<T*>(x.data_ptr()), x.nbytes() / sizeof(T)};
}

}  // namespace

std::function<std::vector<Tensor>()> raw_kernel_call(const std::vector<Tensor>& qkv,
                                                     const Tensor& out_gradient, Pass pass) {
  AttentionInputs<float> inputs;
  inputs.q = view(qkv[0]), inputs.k = view(qkv[1]), inputs.v = view(qkv[2]);
  AttentionOptions options;
  options.q_rope = options.k_rope = Rope::grid(grid_width(inputs.q.tokens));

  const HeadsView<const float>& q = inputs.q;
  const int64_t state_size = attention_state_size(q.batch, q.heads, q.dim, inputs.v.dim);
  std::vector<Tensor> results = {at::empty_like(qkv[2])};
  if (pass == Pass::kForwardBackward) {
    for (const Tensor& x : qkv) results.push_back(at::empty_like(x));
  }
  const Tensor state = at::empty({state_size}, at::kFloat);
  const Tensor scratch = at::empty({attention_scratch_bytes(inputs, options)}, at::kByte);

  // The closure holds the tensors, hence the memory that the views point to.
  return [=] {
    attention_forward(inputs, options, view(results[0]), elements<float>(state),
                      elements<std::byte>(scratch));
    if (pass == Pass::kForward) return results;
    AttentionGradients<float> gradients;
    gradients.q = view(results[1]), gradients.k = view(results[2]), gradients.v = view(results[3]);
    attention_backward<float>(inputs, options, view(out_gradient), elements<const float>(state),
                              gradients, elements<std::byte>(scratch));
    return std::vector<Tensor>(results);
  };
}

}  // namespace mala::bench
