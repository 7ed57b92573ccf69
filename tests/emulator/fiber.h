// A function on a stack of its own, which can pause and go on: what a thread of a GPU is here.
#pragma once

#include "tests/emulator/pages.h"

namespace mala::emulator {

class Fiber {
 public:
  Fiber();

  // The next resume() begins `body`, which never returns: its last act is to pause. Whatever ran
  // on the stack before is forgotten.
  void start(void (*body)());

  void resume();  // from outside: until it pauses
  void pause();   // from inside: until it is resumed

 private:
  Pages stack_;
  void *inside_ = nullptr, *outside_ = nullptr;  // stack pointers
};

}  // namespace mala::emulator
