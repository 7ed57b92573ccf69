// Activations that are reckoned twice instead of kept.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>

namespace mala::nn {

// forward(x), of which only x is kept for the gradient: the backward pass runs it again, with the
// same random numbers and under the same autocast. It must depend on x and on the parameters of
// `module` alone, and change nothing.
torch::Tensor recompute(torch::nn::Module& module,
                        const std::function<torch::Tensor(const torch::Tensor&)>& forward,
                        const torch::Tensor& x);

}  // namespace mala::nn
