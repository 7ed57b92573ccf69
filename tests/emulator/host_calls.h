// The calls and types of CUDA's runtime that the host's code uses.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tests/emulator/launch.h"
#include "tests/emulator/vectors.h"

enum cudaError_t {
  cudaSuccess,
  cudaErrorInvalidValue,
  cudaErrorMemoryAllocation,
  cudaErrorCooperativeLaunchTooLarge
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
  cudaDevAttrCooperativeLaunch,
  cudaDevAttrComputeCapabilityMajor
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum { cudaStreamNonBlocking = 1 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal };
enum cudaLaunchAttributeID {
  cudaLaunchAttributeCooperative,
  cudaLaunchAttributeClusterDimension,
  cudaLaunchAttributeProgrammaticStreamSerialization
};
using cudaStream_t = struct CUstream_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraph_st*;
struct cudaLaunchAttributeValue {
  int cooperative;
  dim3 clusterDim;
  int programmaticStreamSerializationAllowed;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
struct cudaFuncAttributes {
  int ptxVersion;
};
struct cudaDeviceProp {
  char name[256];
  int major, minor, multiProcessorCount;
  size_t totalGlobalMem;
};

const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);
cudaError_t cudaGetLastError();

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* to, cudaDeviceAttr what, int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int device);

cudaError_t cudaFree(void* memory);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemset(void* to, int value, size_t bytes);

cudaError_t cudaDeviceSynchronize();
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* to, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);

namespace mala::emulator {

cudaError_t allocate(void** memory, size_t bytes);
dim3 cluster_of(const cudaLaunchConfig_t& config);
bool begins_early(const cudaLaunchConfig_t& config);
bool runs_together(const cudaLaunchConfig_t& config);
bool fits_at_once(const dim3& grid);
int multiprocessors();  // of the current device

// Runs a launch, or keeps it for the graph that is being captured.
void submit(cudaStream_t stream, const Launch& launch);

template <typename... Parameters, typename... Arguments>
void submit(const cudaLaunchConfig_t& config, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  std::tuple<std::remove_const_t<Parameters>...> kept(std::forward<Arguments>(arguments)...);
  submit(config.stream,
         {config.gridDim, config.blockDim, cluster_of(config), config.dynamicSmemBytes,
          begins_early(config), runs_together(config), reinterpret_cast<const void*>(kernel),
          [kernel, kept] { std::apply(kernel, kept); }});
}

// What kernel<<<grid, block, bytes, stream>>> becomes, before its arguments.
template <typename... Parameters>
auto with_grid(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes = 0,
               cudaStream_t stream = nullptr) {
  return [=](Parameters... arguments) {
    submit({grid, block, shared_bytes, stream, nullptr, 0}, kernel, arguments...);
  };
}

}  // namespace mala::emulator

template <typename T>
cudaError_t cudaMalloc(T** memory, size_t bytes) {
  return mala::emulator::allocate(reinterpret_cast<void**>(memory), bytes);
}
template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* to, Kernel*) {
  *to = {90};
  return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaOccupancyMaxActiveClusters(int* to, Kernel*, const cudaLaunchConfig_t* config) {
  *to = mala::emulator::multiprocessors() /
        static_cast<int>(mala::emulator::cluster_of(*config).size());
  return cudaSuccess;
}
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  if (mala::emulator::runs_together(*config) && !mala::emulator::fits_at_once(config->gridDim))
    return cudaErrorCooperativeLaunchTooLarge;
  mala::emulator::submit(*config, kernel, std::forward<Arguments>(arguments)...);
  return cudaSuccess;
}
