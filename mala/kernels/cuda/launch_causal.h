// The kernels of the causal form, launched. No CUDA types, so that plain C++ can call it.
#pragma once

#include "mala/kernels/cuda/launch.h"

namespace mala::gpu {

template <typename T>
void launch_causal_forward(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid);
template <typename T>
void launch_causal_query_gradients(Launcher& on, const Call<T>& call, int padded,
                                   const PassGrid& grid);
template <typename T>
void launch_causal_sum_queries(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid);
template <typename T>
void launch_causal_key_gradients(Launcher& on, const Call<T>& call, int padded,
                                 const PassGrid& grid);

// From the sums of parts to those before each, and the state after all.
template <typename T>
void launch_scan_keys(Launcher& on, const Call<T>& call);

// From what the queries of parts add to the gradients of the sums, to those after each part, and
// the gradient of the state before all.
template <typename T>
void launch_scan_queries(Launcher& on, const Call<T>& call);

}  // namespace mala::gpu
