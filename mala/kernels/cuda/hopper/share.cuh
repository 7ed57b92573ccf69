// How the threads of a block share things that are counted.
#pragma once

namespace mala::gpu::hopper {

// Calls body(i) for those of kAll things that this thread has. How many threads there are is known
// when this is compiled, and i has no sign, so that addresses of the next i are those of the last
// plus a constant.
template <unsigned kAll, unsigned kThreads, class Body>
__device__ __forceinline__ void share_all(Body body) {
  __builtin_assume(threadIdx.x < kThreads);
#pragma unroll
  for (unsigned first = 0; first < kAll; first += kThreads) {
    const unsigned i = first + threadIdx.x;
    if (i < kAll) body(i);
  }
}

}  // namespace mala::gpu::hopper
