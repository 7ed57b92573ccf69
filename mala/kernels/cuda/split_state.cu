// The gradient of a state on its way from the queries' half of a call to the keys' half.
#include "mala/kernels/cuda/launch.cuh"
#include "mala/kernels/cuda/split_state.h"

namespace mala::gpu {
namespace {

constexpr int kStateThreads = 256;  // D and E at most

// Grid (units). d_key_j = dS (v_j - mean value) + ... and d_value_j = dS^T (key_j - mean key) +
// ..., so that the means' share goes into the gradients of the small sums.
template <typename T>
__global__ void __launch_bounds__(kStateThreads)
    give_state_gradient_kernel(const __grid_constant__ Call<T> call, float* all) {
  wait_for_previous();
  let_next_begin();
  const StateLayout& layout = call.layout;
  const int64_t unit = blockIdx.x, size = layout.size(), dim = layout.dim, cols = layout.value_dim;
  const float *from = call.gradient + unit * size, *state = call.state + unit * size;
  float* to = all + unit * size;
  const double keys = static_cast<double>(call.sequence(unit / call.kv_heads).k_count);
  const double c = static_cast<double>(call.scale) * (call.key_mean ? 1.0 / keys : 1.0);
  for (int64_t i = threadIdx.x; i < dim * cols; i += kStateThreads) to[i] = from[i];
  const int64_t i = threadIdx.x;
  if (i < dim) {
    const double by_magnitude = c * static_cast<double>(from[layout.keys() + i]);
    double rotated = static_cast<double>(from[layout.rotated_keys() + i]);
    for (int64_t j = 0; j < cols; ++j) {
      rotated -= static_cast<double>(from[i * cols + j]) *
                 static_cast<double>(state[layout.values() + j]) / keys;
    }
    const bool late = call.rotated_magnitude();
    to[layout.keys() + i] = static_cast<float>(late ? 0.0 : by_magnitude);
    to[layout.rotated_keys() + i] = static_cast<float>(late ? rotated + by_magnitude : rotated);
  }
  if (i < cols) {
    double value = static_cast<double>(from[layout.values() + i]);
    for (int64_t j = 0; j < dim; ++j) {
      value -= static_cast<double>(from[j * cols + i]) *
               static_cast<double>(state[layout.rotated_keys() + j]);
    }
    to[layout.values() + i] = static_cast<float>(value / keys);
  }
}

// Grid (units).
template <typename T>
__global__ void __launch_bounds__(kStateThreads)
    take_state_gradient_kernel(const __grid_constant__ Call<T> call, const float* all) {
  wait_for_previous();
  let_next_begin();
  const int64_t unit = blockIdx.x, size = call.layout.size();
  const float keys = static_cast<float>(call.sequence(unit / call.kv_heads).k_count);
  for (int64_t i = threadIdx.x; i < size; i += kStateThreads) {
    const float x = all[unit * size + i];
    call.gradient[unit * size + i] = i < call.layout.values() ? x : x * keys;
    call.state[unit * size + i] = 0.0f;
  }
}

template <typename T>
LaunchSize state_size(const Call<T>& call) {
  return {dim3(static_cast<unsigned>(call.sequences * call.kv_heads)), kStateThreads, 0};
}

}  // namespace

template <typename T>
void launch_give_state_gradient(Launcher& on, const Call<T>& call, float* to) {
  launch<give_state_gradient_kernel<T>>(on, state_size(call), call, to);
}

template <typename T>
void launch_take_state_gradient(Launcher& on, const Call<T>& call, const float* from) {
  launch<take_state_gradient_kernel<T>>(on, state_size(call), call, from);
}

#define MALA_INSTANTIATE(T)                                                    \
  template void launch_give_state_gradient(Launcher&, const Call<T>&, float*); \
  template void launch_take_state_gradient(Launcher&, const Call<T>&, const float*)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::gpu
