// The part of CUDA's header that kernels use: all blocks of a grid, where they run at once.
#pragma once

#include "tests/emulator/barriers.h"

namespace cooperative_groups {

struct grid_group {
  void sync(const mala::emulator::Where& where = mala::emulator::Where::current()) const {
    mala::emulator::sync_grid(where);
  }
};
inline grid_group this_grid() { return {}; }

}  // namespace cooperative_groups
