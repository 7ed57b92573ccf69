// The kernels of the causal form, launched. No CUDA types, so that plain C++ can call it.
#pragma once

#include "mala/kernels/cuda/launch.h"

namespace mala::gpu {

// Grids of queries tell by their `cluster` whether sweeps go by warpgroups.
template <typename T>
void launch_causal_sum_keys(Launcher& on, const Call<T>& call, int padded, const PassGrid& keys,
                            const PassGrid& queries);
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

// By warpgroups, which a plan says.
namespace hopper {
void launch_causal_sum_keys(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid);
void launch_causal_forward(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid);
void launch_causal_query_gradients(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid);
void launch_causal_sum_queries(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid);
void launch_causal_key_gradients(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid);
}  // namespace hopper

}  // namespace mala::gpu
