// How a kernel is launched. Only .cu files include it.
#pragma once

#include <cuda_runtime.h>

#include "mala/kernels/cuda/check.h"
#include "mala/kernels/cuda/launch.h"
#include "mala/kernels/cuda/shape.h"

namespace mala::gpu {

struct LaunchSize {
  dim3 grid;
  int threads = 0, shared_bytes = 0;
};

template <class... Args>
void launch(Launcher& on, void (*kernel)(Args...), const LaunchSize& size,
            const std::type_identity_t<Args>&... args) {
  constexpr int kWithoutAsking = 48 * 1024;
  if (size.shared_bytes > kWithoutAsking) {
    MALA_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         size.shared_bytes));
  }
  cudaLaunchConfig_t config{};
  config.gridDim = size.grid;
  config.blockDim = dim3(static_cast<unsigned>(size.threads));
  config.dynamicSmemBytes = static_cast<size_t>(size.shared_bytes);
  config.stream = static_cast<cudaStream_t>(on.stream());
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &early;
  config.numAttrs = on.overlaps() ? 1 : 0;
  MALA_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, args...));
}

// Calls run(std::bool_constant): whether kernels must be ready for queries or keys that turn.
template <typename T, int kDim, class Run>
void with_turns(const Call<T>& call, Run&& run) {
  if constexpr (kSpecial<T, kDim>) {
    if (!call.q_turning.turns && !call.k_turning.turns) return run(std::false_type{});
  }
  run(std::true_type{});
}

inline dim3 dim3_of(const PassGrid& grid) {
  return {static_cast<unsigned>(grid.heads), static_cast<unsigned>(grid.parts),
          static_cast<unsigned>(grid.chunks)};
}

}  // namespace mala::gpu
