// What isa.cpp and the passes share: Highway's own choice is process-wide, so ours has an object
// of its own and leaves other users of Highway alone.
#pragma once

#include "hwy/targets.h"

namespace mala::cpu {

// The one in use. Chosen at the first call; see isa.h.
const hwy::ChosenTarget& chosen_target();

}  // namespace mala::cpu
