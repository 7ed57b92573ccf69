// Draws the tensors of a case.
#include "bench/support/inputs.h"

#include <ATen/ATen.h>

namespace mala::bench {

using at::Tensor;

Inputs random_inputs(const Case& what) {
  at::manual_seed(7);
  const Shape& shape = what.shape;
  auto random = [&] {
    return at::randn({shape.batch, shape.heads, shape.tokens, shape.dim})
        .to(scalar_type(what.dtype));
  };
  Inputs inputs;
  for (int i = 0; i < 3; ++i) inputs.qkv.push_back(random());
  if (what.pass == Pass::kForwardBackward) inputs.out_gradient = random();
  if (is_packed(what.form)) inputs.offsets = at::tensor(packed_offsets(shape.tokens), at::kLong);
  return inputs;
}

Inputs in_double(const Inputs& inputs) {
  Inputs wide{{}, {}, inputs.offsets};
  for (const Tensor& x : inputs.qkv) wide.qkv.push_back(x.to(at::kDouble));
  if (inputs.out_gradient.defined()) wide.out_gradient = inputs.out_gradient.to(at::kDouble);
  return wide;
}

Results empty_results(const Inputs& inputs) {
  Results results = {at::empty_like(inputs.qkv[2])};
  if (!inputs.out_gradient.defined()) return results;
  for (const Tensor& x : inputs.qkv) results.push_back(at::empty_like(x));
  return results;
}

}  // namespace mala::bench
