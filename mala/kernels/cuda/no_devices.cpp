// The list of GPUs of a build without CUDA.
#include "mala/kernels/cuda/devices.h"

namespace mala::gpu {

std::vector<Device> devices() { return {}; }

std::string why_no_device() {
  return "[devices] this library was built without CUDA; install the CUDA toolkit and build with "
         "-DMALA_CUDA=ON, or use the CPU";
}

}  // namespace mala::gpu
