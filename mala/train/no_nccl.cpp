// In place of NCCL in a build without CUDA.
#include "mala/core/error.h"
#include "mala/train/backends.h"

namespace mala::train {

Backend make_nccl(const Store&, int, int) {
  throw Error("[train] this program was built without CUDA; use run.device=cpu");
}

}  // namespace mala::train
