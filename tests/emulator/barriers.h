// The barrier of all blocks, and what barriers do when threads end.
#pragma once

#include "tests/emulator/block.h"

namespace mala::emulator {

// Of a launch whose blocks all run at once.
void sync_grid(const Where& where);

// A thread of the block has ended: barriers of all that live may be full now.
void stop_expecting(Block& block);

}  // namespace mala::emulator
