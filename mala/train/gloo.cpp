// Gloo between CPUs. The torch wheel has gloo but not its headers: those are Debian's, of another
// version, and nothing of them is used but names of types that pass through here by pointer.
#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "mala/train/backends.h"

namespace mala::train {

Backend make_gloo(const Store& store, int rank, int world) {
  const auto options = c10d::ProcessGroupGloo::Options::create(kPatience);
  options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, world, options);
}

}  // namespace mala::train
