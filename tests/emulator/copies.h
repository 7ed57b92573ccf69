// Copies to shared memory that a thread starts and later waits for.
#pragma once

#include "tests/emulator/block.h"

namespace mala::emulator {

// At the end of a thread, which need not wait for them.
void finish_all_copies(Thread& thread);

}  // namespace mala::emulator
