// A table of turns in shared memory, of the tokens of one block: nobody has to fill one before, and
// it is nearer.
#pragma once

#include "mala/kernels/cuda/shape.h"
#include "mala/kernels/cuda/task.cuh"

namespace mala::gpu::hopper {

// What a kernel that was compiled for it has of so many bytes.
template <class Kind>
constexpr int near_bytes(int bytes) {
  return Kind::kHow == Turned::kNear ? bytes : 0;
}

struct NearTokens {
  int64_t first, end, width;  // of the task, and of the image
};
__device__ __forceinline__ NearTokens near_tokens(const Task& task, int64_t width) {
  return {task.sequence.earlier + task.first, task.sequence.earlier + task.end, width};
}

// By all threads of the block, which wait for each other: how its tokens turn. A frequency has two
// parts, so that angles lose nothing before whole turns are taken off; of what is left, within half
// a turn, the hardware's cos and sin are good to 2^-20, far below what 16 bits hold.
template <int kDim, class Kind>
__device__ __forceinline__ Turning near_turning(const Turning& turning,
                                                const Frequency* frequencies,
                                                const NearTokens& tokens, void* memory) {
  if (Kind::kHow != Turned::kNear || !turning.near) return turning;
  const bool in_grid = turning.axis_pairs < kDim / 2;
  const int first = static_cast<int>(tokens.first + turning.offset);
  const int last = static_cast<int>(tokens.end - 1 + turning.offset);
  const int width = in_grid ? static_cast<int>(tokens.width) : 1;
  // Rows and columns turn alike: where rows are few, one piece of the table serves both.
  const int last_row = last / width;
  const bool is_one = in_grid && last_row < 2 * width;
  const int first_row = is_one ? 0 : first / width, rows = is_one ? 0 : last_row - first_row + 1;
  const int columns = is_one ? max(width, last_row + 1) : in_grid ? width : 0;
  auto* table = static_cast<Turn*>(memory);
  const int pitch = near_pitch(turning.axis_pairs);
  // Divided by constants.
  constexpr unsigned kGridPairs = kDim / 4, kLinePairs = kDim / 2;
  const unsigned thread = threadIdx.x, threads = blockDim.x;
  const unsigned pair = in_grid ? thread % kGridPairs : thread % kLinePairs;
  const unsigned begin = in_grid ? thread / kGridPairs : thread / kLinePairs;
  const unsigned step = in_grid ? threads / kGridPairs : threads / kLinePairs;
  const Frequency frequency = frequencies[pair];
  for (int row = static_cast<int>(begin); row < rows + columns && begin < step;
       row += static_cast<int>(step)) {
    const float position = static_cast<float>(row < rows ? first_row + row : row - rows);
    const float whole = position * frequency.first;
    float turns = fmaf(position, frequency.rest, fmaf(position, frequency.first, -whole));
    turns += whole - rintf(whole);
    const float angle = 6.28318531f * turns;
    table[row * pitch + static_cast<int>(pair)] = {__cosf(angle), __sinf(angle)};
  }
  __syncthreads();
  Turning near = turning;
  near.rests = table;
  near.pitch = pitch;
  near.columns = rows * pitch - turning.axis_pairs;
  near.first_row = first_row;
  return near;
}

// Waits for the kernel ahead. From here on turns may be asked for, wherever their table is.
__device__ __forceinline__ void wait_for_turns(Turning& turning) {
  wait_for_previous();
  asm volatile("" : "+l"(turning.rests)::"memory");
}

// How the other side of a call turns, where that is not as the first.
template <int kDim, class Kind>
__device__ __forceinline__ void turn_as(const Call<BFloat16>& call, const Turning& other,
                                        const Frequency* frequencies, const NearTokens& tokens,
                                        void* memory, Turning& turning) {
  if (call.turn_alike) return;
  turning = near_turning<kDim, Kind>(other, frequencies, tokens, memory);
  wait_for_turns(turning);
}

}  // namespace mala::gpu::hopper
