// CUDA's short vectors and the built-in variables of a thread.
#pragma once

namespace mala::emulator {

template <typename T>
struct alignas(2 * sizeof(T)) Two {
  T x, y;
};
template <typename T>
struct alignas(4 * sizeof(T)) Four {
  T x, y, z, w;
};

}  // namespace mala::emulator

using double2 = mala::emulator::Two<double>;
using float2 = mala::emulator::Two<float>;
using float4 = mala::emulator::Four<float>;
using int2 = mala::emulator::Two<int>;
using int4 = mala::emulator::Four<int>;
using uint2 = mala::emulator::Two<unsigned>;
using uint4 = mala::emulator::Four<unsigned>;

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)
      : x(x_size), y(y_size), z(z_size) {}
  constexpr unsigned size() const { return x * y * z; }
};

// Of the thread that runs now: set whenever it goes on.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
