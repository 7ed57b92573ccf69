// What stands in for the header of CUDA: its words for the compiler, which mean nothing to a CPU,
// then vectors, host calls, intrinsics, and what instructions in PTX become.
#pragma once

#define CUDART_VERSION 13000
#define __device__
#define __host__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __align__(bytes) alignas(bytes)
// rewrite.py looks for this word.
#define __shared__ __mala_shared__

#include "tests/emulator/host_calls.h"
#include "tests/emulator/intrinsics.h"
#include "tests/emulator/ptx.h"
#include "tests/emulator/vectors.h"
