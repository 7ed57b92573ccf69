// Between the gradient of the sums over keys, which callers exchange, and what the passes of a GPU
// hold of it. No CUDA types, so that plain C++ can call it.
#pragma once

#include "mala/kernels/cuda/launch.h"

namespace mala::gpu {

// The passes take keys and values about their means, and leave scales to the pass over keys.
// `to` = the gradient of the sums themselves, of what the queries left in call.gradient.
template <typename T>
void launch_give_state_gradient(Launcher& on, const Call<T>& call, float* to);

// call.gradient = the gradient of the sums as the pass over keys wants it about means of zero, with
// which it fills call.state.
template <typename T>
void launch_take_state_gradient(Launcher& on, const Call<T>& call, const float* from);

}  // namespace mala::gpu
