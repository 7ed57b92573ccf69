// The part of a call that one block has: some tokens of one head.
#pragma once

#include "mala/kernels/cuda/call.h"
#include "mala/kernels/cuda/rotate.cuh"
#include "mala/kernels/cuda/tile.cuh"

namespace mala::gpu {

// A kernel may begin before the one ahead of it has ended, to hide its start. It then waits here
// before it touches what that one wrote or still reads.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

struct Task {
  Sequence sequence;
  int64_t head = 0;            // of this side
  int64_t unit = 0;            // the state it goes with
  int64_t first = 0, end = 0;  // tokens of the sequence
  int64_t slot = 0;            // where its sums go
};

// Block (head of a sequence, part). A part that the sequence does not have is empty.
template <typename T>
__device__ __forceinline__ Task key_task(const Call<T>& call) {
  const int64_t index = blockIdx.x / call.kv_heads, head = blockIdx.x % call.kv_heads;
  const Sequence sequence = call.sequence(index);
  const int64_t parts = divide_up(sequence.k_count, call.k_part_tokens);
  const int64_t first = min(blockIdx.y * call.k_part_tokens, sequence.k_count);
  return {sequence,
          head,
          static_cast<int64_t>(blockIdx.x),
          first,
          min(first + call.k_part_tokens, sequence.k_count),
          sequence.k_parts * call.kv_heads + head * parts + blockIdx.y};
}

template <typename T>
__device__ __forceinline__ Task query_task(const Call<T>& call) {
  const int64_t index = blockIdx.x / call.heads, head = blockIdx.x % call.heads;
  const Sequence sequence = call.sequence(index);
  const int64_t parts = divide_up(sequence.q_count, call.q_part_tokens);
  const int64_t first = min(blockIdx.y * call.q_part_tokens, sequence.q_count);
  return {sequence,
          head,
          index * call.kv_heads + head / call.group,
          first,
          min(first + call.q_part_tokens, sequence.q_count),
          sequence.q_parts * call.heads + head * parts + blockIdx.y};
}

template <typename T>
__device__ __forceinline__ Rows<T> key_rows(const HeadsView<T>& view, const Task& task,
                                            bool vectors) {
  return rows_of(view, task.sequence.batch, task.head, task.sequence.k_first, vectors);
}
template <typename T>
__device__ __forceinline__ Rows<T> query_rows(const HeadsView<T>& view, const Task& task,
                                              bool vectors) {
  return rows_of(view, task.sequence.batch, task.head, task.sequence.q_first, vectors);
}

// What a lane has of the tiles of its block: rows g and g + 8 of its warp's tokens.
struct LaneTokens {
  int64_t first, end;  // the tokens of its rows are first and first + 8
  Walk walks[2];

  __device__ __forceinline__ LaneTokens(const Turning& turning, const Task& task, int64_t width,
                                        int step)
      : first(task.first + threadIdx.x / 32 * kWarpTokens + threadIdx.x % 32 / 4),
        end(task.end),
        walks{Walk(turning, first, width, step), Walk(turning, first + 8, width, step)} {}

  __device__ __forceinline__ int64_t token(int half) const { return first + 8 * half; }
  __device__ __forceinline__ bool exists(int half) const { return token(half) < end; }
  __device__ __forceinline__ void advance(int step) {
    first += step;
    walks[0].advance();
    walks[1].advance();
  }
};

// The sum over the four lanes that share a row.
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

}  // namespace mala::gpu
