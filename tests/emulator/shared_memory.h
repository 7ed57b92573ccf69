// The shared memory of a block: where it lies, and what addresses in it look like.
#pragma once

#include <cstddef>

#include "tests/emulator/block.h"

namespace mala::emulator {

// Full of NaN, as nobody has written to it yet.
void prepare_shared_memory(Block& block, size_t bytes);

// Fails the launch where a block wrote beside its memory.
void check_borders(const Block& block);

}  // namespace mala::emulator
