// The opcodes of a pickle that hold their value themselves.
#pragma once

#include "mala/io/pickle_input.h"
#include "mala/io/pickle_stack.h"

namespace mala::io {

// Each pushes the value of an opcode of its kind, and says whether the opcode was one. Floats,
// bytes and integers beyond 64 bits are pushed as opaque: nothing here asks for them.
bool read_number(char code, PickleInput& input, PickleStack& stack);
bool read_text(char code, PickleInput& input, PickleStack& stack);

}  // namespace mala::io
