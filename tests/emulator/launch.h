// A kernel with its grid and its arguments, and how it runs: cluster after cluster.
#pragma once

#include <functional>
#include <string>

#include "tests/emulator/vectors.h"

namespace mala::emulator {

struct Launch {
  dim3 grid{}, block{}, cluster{};
  size_t shared_bytes = 0;
  bool begins_early = false;   // maybe before the one ahead has ended
  bool runs_together = false;  // all blocks, each a cluster of its own
  const void* kernel = nullptr;
  std::function<void()> body{};  // the kernel with its arguments
};

// Runs all blocks of a launch to their end. Throws mala::Error when one of them fails.
void run(const Launch& launch);

// Whether the blocks of the launch that runs now are no cluster, although they run together.
bool runs_together();

// For messages: the kernel of the launch that runs now.
std::string kernel_name();

}  // namespace mala::emulator
