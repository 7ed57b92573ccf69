// How the threads of a block share things that are counted.
#pragma once

namespace mala::gpu::hopper {

// Calls body(number, i) for those of kAll things that this thread has: its first, second, ... How
// many threads there are is known when this is compiled, and i has no sign, so that addresses of
// the next i are those of the last plus a constant.
template <unsigned kAll, unsigned kThreads, class Body>
__device__ __forceinline__ void share_numbered(Body body) {
  __builtin_assume(threadIdx.x < kThreads);
#pragma unroll
  for (unsigned number = 0; number * kThreads < kAll; ++number) {
    const unsigned i = number * kThreads + threadIdx.x;
    if (i < kAll) body(number, i);
  }
}

// Calls body(i) for them.
template <unsigned kAll, unsigned kThreads, class Body>
__device__ __forceinline__ void share_all(Body body) {
  share_numbered<kAll, kThreads>([&](unsigned, unsigned i) { body(i); });
}

}  // namespace mala::gpu::hopper
