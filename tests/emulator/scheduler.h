// Takes turns between the threads of a cluster: one runs until it has to wait for others.
#pragma once

#include <cstdint>
#include <string>

#include "tests/emulator/block.h"

namespace mala::emulator {

// 0: warps take turns in order. Any other number is the beginning of a random order in which
// warps run ahead of each other as far as they can, and in which blocks come. The variable
// MALA_EMULATOR_SEED says where it starts.
void set_seed(uint32_t seed);

// A random number below `end`, or `otherwise` where the seed is 0.
uint32_t draw(uint32_t end, uint32_t otherwise);

// Runs `body` in every thread of the cluster to its end. Throws mala::Error when one of them fails,
// or when all that are left wait.
void run_threads(Cluster& cluster, void (*body)());

// Whether the order is such a random one.
bool order_is_random();

// Whether the kernel ahead of the current thread's may not have ended yet.
bool is_early();

// The thread that runs now; null outside of kernels.
Thread* current_thread();
inline Block& current_block() { return *current_thread()->block; }
inline Warp& warp_of(const Thread& thread) { return thread.block->warps[thread.warp()]; }

// What the current thread does, for messages.
void note(const char* doing, const Where& where);
// The current thread stops until somebody wakes it.
void sleep();
void wake(Thread* thread);

// The current thread never goes on, and its launch fails.
[[noreturn]] void give_up(const std::string& why);

}  // namespace mala::emulator
