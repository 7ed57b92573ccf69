// Small kernels that do what they should, or make one of the mistakes that the emulator must show.
#pragma once

#include <cstdint>
#include <vector>

namespace mala::emulator {

enum class Mistake {
  kNone,
  kNoWait,        // what was asked for is read before it was waited for
  kOverwritten,   // an operand of a product changes before the product was waited for
  kSumsWritten,   // and here its sums
  kNoBarrier,     // what another warp writes is read without a barrier
  kFewArrive,     // a barrier waits for threads that never come, ...
  kTooManyBytes,  // ... or for bytes
  kTwoWays,       // lanes of a warp wait in different instructions
  kBeyond,        // shared memory of nobody is read by its address, ...
  kBehind,        // ... or written by a pointer
  kStray,         // device memory behind an allocation is read
  kTooEarly,      // what the kernel ahead writes is read before that one was waited for, ...
  kCopiedEarly,   // ... or asked for
  kLetsNext,      // the next kernel may begin although the one ahead may not have ended
  kNotTogether,   // blocks wait for all others, which need not run at once, ...
  kLeavesEarly,   // ... or of which one never comes
};

// 256 numbers through shared memory by cp.async, and back in the order of other warps.
std::vector<float> run_copy(const std::vector<float>& from, Mistake mistake);

// left (64, 16) times right (16, 8), both bfloat16 row by row, by a warpgroup.
std::vector<float> run_product(const std::vector<uint16_t>& left,
                               const std::vector<uint16_t>& right, Mistake mistake);

// To each of 32 lanes the number of its neighbour, plus that of lane 5; 128 words through ldmatrix
// and stmatrix.
std::vector<float> run_shuffles(const std::vector<float>& from);
std::vector<uint32_t> run_matrices(const std::vector<uint32_t>& from);

// 64 numbers by one kernel, and from there by another that may begin before the first has ended.
std::vector<float> run_two_kernels(const std::vector<float>& from, Mistake mistake);

// What each block of clusters of four sees of its neighbour's memory: the index of that block.
std::vector<uint32_t> run_cluster();

// Of each turn, block of a cluster of four and lane the number that went from block to block.
std::vector<float> run_chain(Mistake mistake);

// What each of six blocks sees that its neighbour wrote before all had come to a barrier.
std::vector<uint32_t> run_grid(Mistake mistake);

}  // namespace mala::emulator
