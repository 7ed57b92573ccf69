// Attention on torch tensors: our operator, the published formula and softmax.
#pragma once

#include <functional>
#include <string>

#include "bench/support/inputs.h"
#include "mala/ops/attention.h"

namespace mala::bench {

using Attention =
    std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;

// The options of a case, for our operator.
ops::AttentionArguments operator_arguments(const Case& what);

// The published formula on tensors of this type, for images.
Attention published(const Case& what, at::ScalarType dtype);

// "mala", "published" or "sdpa", of a form that it has; see contenders.h.
Attention find_attention(const std::string& impl, const Case& what, const Inputs& inputs);

// Forward alone, or through autograd where the inputs have the gradient of out.
Results run_pass(const Attention& attention, const Inputs& inputs);

}  // namespace mala::bench
