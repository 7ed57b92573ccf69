// What barriers do when threads end.
#pragma once

#include "tests/emulator/block.h"

namespace mala::emulator {

// A thread of the block has ended: barriers of all that live may be full now.
void stop_expecting(Block& block);

}  // namespace mala::emulator
