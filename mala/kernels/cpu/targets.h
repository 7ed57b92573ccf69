// What isa.cpp and passes.cpp share: Highway's own choice is process-wide, so ours has an object
// of its own and leaves other users of Highway alone.
#pragma once

#include <cstdint>

#include "hwy/targets.h"

namespace mala::cpu {

// The instruction sets that the kernels were compiled for.
int64_t compiled_targets();

// The one in use. Chosen at the first call; see isa.h.
const hwy::ChosenTarget& chosen_target();

}  // namespace mala::cpu
