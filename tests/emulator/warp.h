// How the lanes of a warp meet in one instruction.
#pragma once

#include "tests/emulator/block.h"

namespace mala::emulator {

// All lanes of `mask` come here, each with its arguments; the last of them runs `act` for all.
void meet(uint32_t mask, const char* what, void* arguments, void (*act)(Meeting&),
          const Where& where);

// The same where the whole warp has to come.
void meet_all(const char* what, void* arguments, void (*act)(Meeting&), const Where& where);

template <typename Arguments>
Arguments& arguments_of(const Meeting& meeting, int lane) {
  return *static_cast<Arguments*>(meeting.arguments[lane]);
}

}  // namespace mala::emulator
