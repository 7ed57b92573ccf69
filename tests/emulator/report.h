// Who does what, in words: for the messages of launches that fail.
#pragma once

#include <string>

#include "tests/emulator/block.h"

namespace mala::emulator {

// Of a function's address, where the program says it.
std::string name_of(const void* function);

// Block, thread, and where the thread was last seen.
std::string place_of(const Thread& thread);

// The threads of each block by what they wait for, and its barriers.
std::string who_waits_where(const Cluster& cluster);

}  // namespace mala::emulator
