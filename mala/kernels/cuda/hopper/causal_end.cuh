// The state that the causal forward on Hopper leaves where it goes over a text from its beginning:
// the chain of teams hands the sums on once more, behind the last tile.
#pragma once

#include "mala/kernels/cuda/hopper/causal_links.cuh"

namespace mala::gpu::hopper {

// What a team has received after so many turns: the sums over all tokens, of values as they are.
template <class Kind>
struct ReceivedState {
  const Link& link;
  int turn;
  float count;                 // of tokens
  float values[2], centre[2];  // of the lane's rows

  __device__ __forceinline__ ReceivedState(const Link& from, int turns, int64_t tokens)
      : link(from), turn(turns), count(static_cast<float>(tokens)) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = 4 * link.lane.row(half);
      values[half] = load_shared_float(link.panels.values(turn) + row);
      centre[half] = load_shared_float(link.panels.centre(turn) + row);
    }
  }

  __device__ __forceinline__ void write(const StateLayout& layout, double* to) const {
    const TileLane& lane = link.lane;
    const uint32_t rotated = link.panels.rotated_keys(turn);
    const TileRows matrix = link.received();  // (values, features)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (lane.t == 0) to[layout.values() + lane.row(half)] = as_it_is(values[half], count, half);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float2 key = load_shared_two(rotated + 32 * j + 8 * lane.t);
        double* row = to + lane.column(j) * 64 + lane.row(half);
        row[0] = as_it_is(with_broken(matrix.at(j, half, 0), half), key.x, half);
        row[64] = as_it_is(with_broken(matrix.at(j, half, 1), half), key.y, half);
      }
    }
    if (lane.warp > 0) return;
    // Where nothing turns, the sum of keys is handed on but once.
    write_pair(Kind::kTurns ? link.panels.keys(turn) : rotated, to + layout.keys());
    write_pair(rotated, to + layout.rotated_keys());
  }

 private:
  // Of a number that `keys` times the centre was taken off.
  __device__ __forceinline__ double as_it_is(float x, float keys, int half) const {
    return fma(static_cast<double>(centre[half]), static_cast<double>(keys),
               static_cast<double>(x));
  }
  // A value that is no number was left out of products.
  __device__ __forceinline__ float with_broken(float x, int half) const {
    return fmaf(0.0f, values[half], x);
  }
  static __device__ __forceinline__ void write_pair(uint32_t vector, double* to) {
    const unsigned pair = threadIdx.x % 32;
    const float2 two = load_shared_two(vector + 8 * pair);
    to[2 * pair] = two.x;
    to[2 * pair + 1] = two.y;
  }
};

// Once all tiles of a text in one part are done: the state after it, by the team that would have
// the next one. Asks for everything again, so that nothing is kept for it while there are tiles.
template <class Kind>
__device__ __forceinline__ void leave_state(const Call<BFloat16>& call, uint32_t memory) {
  const Team<kGroupThreads> team;
  const Link link = link_of(Cluster(), team, memory);
  const Task task = query_task(call, blockIdx.x, 0);
  const int tiles = static_cast<int>(divide_up(task.end, kRowTokens));
  if (tiles % link.of_all != link.index) return;
  const int turn = tiles / link.of_all;
  link.panels.vectors_box().wait(turn);
  link.panels.matrix_box().wait(turn);
  if (task.head % call.group > 0) return;  // who shares its keys writes it
  const int64_t count = task.sequence.earlier + task.sequence.k_count;
  ReceivedState<Kind>(link, turn, count)
      .write(call.layout, call.state_after + task.unit * call.layout.size());
  if (task.head == 0 && team.thread == 0) call.counts_after[task.unit / call.kv_heads] = count;
}

}  // namespace mala::gpu::hopper
