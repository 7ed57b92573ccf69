// The host's part of CUDA as the emulator has it: all of it is in one header.
#pragma once

#include <cuda_runtime.h>
