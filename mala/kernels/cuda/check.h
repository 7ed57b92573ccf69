// MALA_CUDA_CHECK: a failed CUDA call becomes a mala::Error. Only files in this folder include it.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "mala/core/error.h"

namespace mala::gpu {

// `file` from "mala/" on, so that messages are the same on every machine.
constexpr std::string_view inside_tree(std::string_view file) {
  const size_t start = file.rfind("mala/kernels/");
  return start == std::string_view::npos ? file : file.substr(start);
}

inline void check_call(cudaError_t status, const char* call, std::string_view file, int line) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // the next call starts clean, unless the device itself is lost
  throw Error(str("[", call, "] failed at ", inside_tree(file), ":", line, ": ",
                  cudaGetErrorString(status), " (", cudaGetErrorName(status), ")"));
}

}  // namespace mala::gpu

// MALA_CUDA_CHECK(cudaMalloc(&data, bytes)); after a launch: MALA_CUDA_CHECK(cudaGetLastError());
#define MALA_CUDA_CHECK(call) ::mala::gpu::check_call((call), #call, __FILE__, __LINE__)
