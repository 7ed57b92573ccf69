// How a kernel is launched. Only .cu files include it.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <initializer_list>

#include "mala/kernels/cuda/check.h"
#include "mala/kernels/cuda/launch.h"
#include "mala/kernels/cuda/shape.h"
#include "mala/kernels/cuda/task.cuh"

namespace mala::gpu {

struct LaunchSize {
  dim3 grid;
  int threads = 0, shared_bytes = 0, cluster = 1;  // blocks in a row of the grid's second dimension
  bool together = false;                           // all blocks at once; they wait for each other
};

// Lets a kernel have as much shared memory as it needs: once for each device.
template <auto kKernel>
void allow_shared_bytes(const DeviceFacts& device, int bytes) {
  constexpr int kWithoutAsking = 48 * 1024;
  if (bytes <= kWithoutAsking) return;
  static std::atomic<uint64_t> allowed{0};
  const uint64_t bit = uint64_t{1} << (device.index % 64);
  if (device.index < 64 && (allowed.load(std::memory_order_relaxed) & bit)) return;
  if (bytes > device.shared_bytes) {
    throw Error(str("[attention] heads of this size need ", divide_up(bytes, 1024),
                    " KiB of shared memory, a block of GPU ", device.index, " has ",
                    device.shared_bytes / 1024,
                    "; use smaller heads, a GPU of the Hopper kind, or the CPU"));
  }
  MALA_CUDA_CHECK(
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  allowed.fetch_or(bit, std::memory_order_relaxed);
}

// Whether a kernel knows how to wait for the one ahead: what was translated for older devices runs
// on newer ones too, but does not.
template <auto kKernel>
bool can_wait(int device) {
  static std::atomic<uint64_t> asked{0}, able{0};
  const uint64_t bit = uint64_t{1} << (device % 64);
  if (device < 64 && (asked.load(std::memory_order_acquire) & bit)) {
    return able.load(std::memory_order_relaxed) & bit;
  }
  cudaFuncAttributes compiled{};
  MALA_CUDA_CHECK(cudaFuncGetAttributes(&compiled, kKernel));
  const bool can = compiled.ptxVersion >= 90;
  if (device < 64 && can) able.fetch_or(bit, std::memory_order_relaxed);
  if (device < 64) asked.fetch_or(bit, std::memory_order_release);
  return can;
}

// On a device, a kernel is always launched with the same shared memory.
template <auto kKernel, class... Args>
cudaError_t begin(Launcher& on, const LaunchSize& size, const Args&... args) {
  allow_shared_bytes<kKernel>(on.device(), size.shared_bytes);
  cudaLaunchConfig_t config{};
  config.gridDim = size.grid;
  config.blockDim = dim3(static_cast<unsigned>(size.threads));
  config.dynamicSmemBytes = static_cast<size_t>(size.shared_bytes);
  config.stream = static_cast<cudaStream_t>(on.stream());
  cudaLaunchAttribute attributes[3] = {};
  config.attrs = attributes;
  if (size.together) {
    cudaLaunchAttribute& together = attributes[config.numAttrs++];
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
  }
  if (on.overlaps() && can_wait<kKernel>(on.device().index)) {
    cudaLaunchAttribute& early = attributes[config.numAttrs++];
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
  }
  if (size.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {1, static_cast<unsigned>(size.cluster), 1};
  }
  const cudaError_t launched = cudaLaunchKernelEx(&config, kKernel, args...);
  if (launched == cudaSuccess) on.note_begun();
  return launched;
}

template <auto kKernel, class... Args>
void launch(Launcher& on, const LaunchSize& size, const Args&... args) try {
  const cudaError_t launched = begin<kKernel>(on, size, args...);
  MALA_CUDA_CHECK(launched);
} catch (const Error& e) {
  throw Error(str(e.what(), "; ", on.circumstances()));
}

// False where a part of the device is all that this process or thread may use, so that its blocks
// do not fit at once.
template <auto kKernel, class... Args>
bool launch_together(Launcher& on, LaunchSize size, const Args&... args) try {
  size.together = true;
  const cudaError_t launched = begin<kKernel>(on, size, args...);
  if (launched == cudaErrorCooperativeLaunchTooLarge) {
    cudaGetLastError();
    return false;
  }
  MALA_CUDA_CHECK(launched);
  return true;
} catch (const Error& e) {
  throw Error(str(e.what(), "; ", on.circumstances()));
}

// Whether a call has nothing but the usual: see Kind.
inline bool is_usual(Feature feature, std::initializer_list<bool> vectors) {
  return feature == Feature::kElu1 &&
         std::find(vectors.begin(), vectors.end(), false) == vectors.end();
}

// Calls run(Kind) with what the kernels may know of a call. Few are compiled: those of images, in
// heads of 64.
template <typename T, int kDim, bool kTail, class Run>
void with_kind(const Call<T>& call, bool usual, Run&& run) {
  if constexpr (kSpecial<T, kDim> && kDim == 64) {
    usual = usual && call.layout.dim == kDim && call.layout.value_dim == kDim;
    const Turned how = usual ? how_turned(call) : Turned::kSomehow;
    if (how == Turned::kNot) return run(Kind<Turned::kNot, kTail, true>{});
    if (how == Turned::kDirect) return run(Kind<Turned::kDirect, kTail, true>{});
  }
  run(Kind<Turned::kSomehow, true, false>{});
}

// Whether there may be kernels that multiply by whole warpgroups, which only Hopper can. A plan
// says which calls are theirs: all of these are usual.
#ifdef MALA_WITH_WGMMA
constexpr bool kWithWgmma = true;
#else
constexpr bool kWithWgmma = false;
#endif
template <typename T, int kDim>
constexpr bool kOnHopper = kWithWgmma&& kSpecial<T, kDim>;

template <bool kTail, class Run>
void with_hopper_kind(const Call<BFloat16>& call, Run&& run) {
  const Turned how = how_turned(call);
  if (how == Turned::kNot) return run(Kind<Turned::kNot, kTail, true>{});
  if (how == Turned::kDirect) return run(Kind<Turned::kNear, kTail, true>{});
  run(Kind<Turned::kLine, kTail, true>{});
}

inline dim3 dim3_of(const PassGrid& grid) {
  return {static_cast<unsigned>(grid.heads), static_cast<unsigned>(grid.parts * grid.blocks),
          static_cast<unsigned>(grid.chunks)};
}

}  // namespace mala::gpu
