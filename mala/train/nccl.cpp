// NCCL between GPUs.
#define USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "mala/train/backends.h"

namespace mala::train {

Backend make_nccl(const Store& store, int rank, int world) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = kPatience;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, world, options);
}

}  // namespace mala::train
