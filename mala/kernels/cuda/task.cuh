// The part of a call that one block has: some tokens of one head.
#pragma once

#include "mala/kernels/cuda/call.h"
#include "mala/kernels/cuda/rotate.cuh"
#include "mala/kernels/cuda/stages.cuh"
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

// What a kernel is compiled to know: how queries and keys turn, whether there may be a tail, and
// whether everything else is as usual: phi elu1, all rows fit for vectors, heads as large as they
// are padded to. What is not usual stands in functions of its own, whose calls alone would cost
// registers.
template <Turned kHowTurned, bool kMayHaveTail, bool kIsUsual>
struct Kind {
  static constexpr Turned kHow = kHowTurned;
  static constexpr bool kTurns = kHow != Turned::kNot, kTail = kMayHaveTail, kUsual = kIsUsual;

  template <typename T>
  static __device__ __forceinline__ Feature feature(const Call<T>& call) {
    return kUsual ? Feature::kElu1 : call.feature;
  }
  static __device__ __forceinline__ bool vectors(bool possible) { return kUsual || possible; }
  // Of heads that are never smaller than the kernel takes them to be, nobody has to ask.
  template <typename T>
  static __device__ __forceinline__ Rows<T> rows(Rows<T> rows) {
    if (kUsual) rows.cols = 1 << 20;
    return rows;
  }
};

// Whether a pass has a kernel of its own on Hopper, which is compiled here: its usual calls never
// come to the one for all, unless other devices run what is compiled here, too.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(MALA_FOR_ALL_DEVICES)
template <class Kind>
constexpr bool kLeftToHopper = Kind::kUsual;
#else
template <class Kind>
constexpr bool kLeftToHopper = false;
#endif

struct Task {
  Sequence sequence;
  int64_t head = 0;            // of this side
  int64_t kv_head = 0;         // of keys and values
  int64_t unit = 0;            // the state it goes with
  int64_t first = 0, end = 0;  // tokens of the sequence
  int64_t slot = 0;            // where its sums go
};

// A head of all sequences' keys and a part, those of the block unless others are named. A part that
// the sequence does not have is empty.
template <typename T>
__device__ __forceinline__ Task key_task(const Call<T>& call, unsigned head_of_all, int64_t part) {
  const unsigned heads = static_cast<unsigned>(call.kv_heads);
  const int64_t index = head_of_all / heads, head = head_of_all % heads;
  const Sequence sequence = call.sequence(index);
  const int64_t first = min(part * call.k_part_tokens, sequence.k_count);
  return {.sequence = sequence,
          .head = head,
          .kv_head = head,
          .unit = static_cast<int64_t>(head_of_all),
          .first = first,
          .end = min(first + call.k_part_tokens, sequence.k_count),
          .slot = sequence.k_parts_before * call.kv_heads + head * sequence.k_parts + part};
}
template <typename T>
__device__ __forceinline__ Task key_task(const Call<T>& call) {
  return key_task(call, blockIdx.x, blockIdx.y);
}

// Likewise of queries.
template <typename T>
__device__ __forceinline__ Task query_task(const Call<T>& call, unsigned head_of_all,
                                           int64_t part) {
  const unsigned heads = static_cast<unsigned>(call.heads);
  const unsigned group = static_cast<unsigned>(call.group);
  const int64_t index = head_of_all / heads;
  const unsigned head = head_of_all % heads;
  const Sequence sequence = call.sequence(index);
  const int64_t first = min(part * call.q_part_tokens, sequence.q_count);
  return {.sequence = sequence,
          .head = head,
          .kv_head = head / group,
          .unit = index * call.kv_heads + head / group,
          .first = first,
          .end = min(first + call.q_part_tokens, sequence.q_count),
          .slot = sequence.q_parts_before * call.heads + head * sequence.q_parts + part};
}
template <typename T>
__device__ __forceinline__ Task query_task(const Call<T>& call) {
  return query_task(call, blockIdx.x, blockIdx.y);
}

// Of the block's queries, where it has keys of the same head and no two heads share theirs.
template <typename T>
__device__ __forceinline__ Task query_task_beside(const Call<T>& call, Task keys, int64_t part) {
  const Sequence& sequence = keys.sequence;
  keys.first = min(part * call.q_part_tokens, sequence.q_count);
  keys.end = min(keys.first + call.q_part_tokens, sequence.q_count);
  keys.slot = sequence.q_parts_before * call.heads + keys.head * sequence.q_parts + part;
  return keys;
}

template <class Kind, typename T>
__device__ __forceinline__ Rows<T> key_rows(const HeadsView<T>& view, const Task& task,
                                            bool vectors) {
  return Kind::rows(
      rows_of(view, task.sequence.batch, task.head, task.sequence.k_first, Kind::vectors(vectors)));
}
template <class Kind, typename T>
__device__ __forceinline__ Rows<T> query_rows(const HeadsView<T>& view, const Task& task,
                                              bool vectors) {
  return Kind::rows(
      rows_of(view, task.sequence.batch, task.head, task.sequence.q_first, Kind::vectors(vectors)));
}

// The tokens of a warp's rows of tile after tile: those of this lane are first, first + 8, ... Each
// lane walks with one of the rows, and tells the others where its turns are.
template <class Kind, int kRowTiles>
struct LaneTokens {
  int64_t first, end;
  Walk<Kind::kHow> walk;
  Spot mine;

  // `row` is the lane's first of the first tile.
  __device__ __forceinline__ LaneTokens(const Turning& turning, const Task& task, int64_t width,
                                        int row, int step)
      : first(task.first + row),
        end(task.end),
        walk(turning, task.sequence.earlier + first + walked(), width, step) {
    mine = walk.spot(turning, first + walked() < end);
  }

  __device__ __forceinline__ int64_t token(int piece) const { return first + 8 * piece; }
  __device__ __forceinline__ bool exists(int piece) const { return token(piece) < end; }
  __device__ __forceinline__ Spot spot(int piece) const {
    return spot_of_lane<Kind::kHow>(mine, threadIdx.x % 32 / 4 + 8 * piece);
  }
  __device__ __forceinline__ void advance(const Turning& turning, int step) {
    first += step;
    walk.advance(turning);
    mine = walk.spot(turning, first + walked() < end);
  }

 private:
  // How far the row that this lane walks with is from its first.
  static __device__ __forceinline__ int walked() {
    const int lane = threadIdx.x % 32;
    return lane % (16 * kRowTiles) - lane / 4;
  }
};

// The sum over the four lanes that share a row.
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

}  // namespace mala::gpu
